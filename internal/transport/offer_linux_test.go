package transport_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport"
)

const patience = 10 * time.Second

// offered sends to a carrier what it takes without waiting, and returns how much that was.
func offered(carrier transport.Carrier, data []byte) (taken int, err error) {
	var failure error
	err = carrier.(transport.OfferingCarrier).Offer(func(room transport.Room) bool {
		taken, failure = room.WriteNow(data)
		return true
	})
	return taken, errors.Join(err, failure)
}

func pair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	numbers, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return connOf(t, numbers[0]), connOf(t, numbers[1])
}

func connOf(t *testing.T, number int) net.Conn {
	t.Helper()
	file := os.NewFile(uintptr(number), "")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Another process that has the same socket may make it wait.
func TestAnOfferDoesNotWaitOnASocketThatWaits(t *testing.T) {
	ours, _ := pair(t)
	carrier := transport.Carry(ours)
	raw, err := ours.(*net.UnixConn).SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) { err = unix.SetNonblock(int(fd), false) }), err)
	}
	if err != nil {
		t.Fatal(err)
	}
	full := make(chan struct{})
	go func() {
		defer close(full)
		for taken, err := 1, error(nil); taken > 0 && err == nil; {
			taken, err = offered(carrier, make([]byte, 1<<20))
		}
	}()
	select {
	case <-full:
	case <-time.After(patience):
		t.Fatalf("after %v the offer still waits for a peer that does not read", patience)
	}
}

func TestWhatIsOfferedArrives(t *testing.T) {
	ours, theirs := pair(t)
	sent := bytes.Repeat([]byte("0123456789"), 100_000)
	offer := make(chan error, 1)
	go func() {
		left, failure := sent, error(nil)
		err := transport.Carry(ours).(transport.OfferingCarrier).Offer(func(room transport.Room) bool {
			var taken int
			taken, failure = room.WriteNow(left)
			left = left[taken:]
			return len(left) == 0 || failure != nil
		})
		offer <- errors.Join(err, failure, ours.Close())
	}()
	got, err := io.ReadAll(theirs)
	if err = errors.Join(err, <-offer); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes arrived, %v", len(got), len(sent), err)
	}
}

// A file with a net.Conn's methods: a connection need be no socket.
type piped struct {
	*os.File
	net.Conn
}

func (p piped) Close() error                           { return p.File.Close() }
func (p piped) Read(b []byte) (int, error)             { return p.File.Read(b) }
func (p piped) Write(b []byte) (int, error)            { return p.File.Write(b) }
func (p piped) SetDeadline(until time.Time) error      { return p.File.SetDeadline(until) }
func (p piped) SetReadDeadline(until time.Time) error  { return p.File.SetReadDeadline(until) }
func (p piped) SetWriteDeadline(until time.Time) error { return p.File.SetWriteDeadline(until) }

func TestAPipeTakesWhatIsOffered(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	if n, err := offered(transport.Carry(piped{File: to}), []byte("text")); n != 4 || err != nil {
		t.Errorf("%d bytes were taken, %v", n, err)
	}
	text := make([]byte, 4)
	if _, err := io.ReadFull(from, text); err != nil || string(text) != "text" {
		t.Errorf("%q arrived, %v", text, err)
	}
}

func TestAClosedPeerIsAnErrorAndNoSignal(t *testing.T) {
	ours, theirs := pair(t)
	theirs.Close()
	if _, err := offered(transport.Carry(ours), []byte("text")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("got %v", err)
	}
}

func TestAnOfferTakesAllThatThereIsRoomFor(t *testing.T) {
	ours, _ := pair(t)
	carrier, much := transport.Carry(ours), make([]byte, 4<<20)
	first, err := offered(carrier, much)
	if err != nil || first == 0 {
		t.Fatalf("%d bytes were taken, %v", first, err)
	}
	if more, err := offered(carrier, much[first:]); more > 0 || err != nil {
		t.Errorf("%d bytes were taken behind %d, %v", more, first, err)
	}
}
