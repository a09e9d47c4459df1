package channel_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/handoff/internal/channel"
	"github.com/nearcall/nearcall/handoff/internal/frame"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pair(t *testing.T) (sender, receiver *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	ends := [2]*net.UnixConn{}
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(file)
		must(t, err)
		must(t, file.Close())
		t.Cleanup(func() { _ = c.Close() })
		ends[i] = c.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

// A piece is what one system call sends: the descriptor goes with its first byte.
type piece struct {
	bytes      []byte
	descriptor int
}

var limits = frame.Limits{PrefixBytesMax: 1 << 16, MessageBytesMax: 1 << 16}

func randomFrame(random *rand.Rand, id uint64) frame.Frame {
	if random.IntN(2) == 0 {
		return frame.Frame{Type: frame.Ping, ID: id}
	}
	f := frame.Frame{Type: frame.Give, Kind: frame.File, ID: id, Name: "it is a gift"[:1+random.IntN(11)]}
	if random.IntN(2) == 0 {
		f.Message = make([]byte, 1+random.IntN(30))
	}
	switch random.IntN(8) {
	case 0:
		f.Prefix = make([]byte, 1+random.IntN(limits.PrefixBytesMax))
	case 1, 2, 3:
		f.Prefix = make([]byte, 1+random.IntN(500))
	}
	for i := range f.Prefix {
		f.Prefix[i] = byte(random.Uint32())
	}
	return f
}

// cut puts frames into pieces anywhere, with no two descriptors and nothing before a
// descriptor in one.
func cut(random *rand.Rand, frames []frame.Frame, descriptors map[uint64]int) (pieces []piece) {
	var pending []byte
	for _, f := range frames {
		descriptor, gift := descriptors[f.ID]
		if !gift {
			pending = f.Append(pending)
			continue
		}
		pieces = append(pieces, split(random, pending, channel.NoDescriptor)...)
		pieces = append(pieces, split(random, f.Append(nil), descriptor)...)
		pending = nil
	}
	return append(pieces, split(random, pending, channel.NoDescriptor)...)
}

func split(random *rand.Rand, bytes []byte, descriptor int) (pieces []piece) {
	for len(bytes) > 0 {
		n := len(bytes)
		switch random.IntN(4) {
		case 0:
			n = 1 + random.IntN(min(n, 40))
		case 1:
			n = 1 + random.IntN(n)
		}
		pieces = append(pieces, piece{bytes[:n], descriptor})
		bytes, descriptor = bytes[n:], channel.NoDescriptor
	}
	return pieces
}

// However frames are put into pieces, each arrives whole, with its own descriptor.
func TestEachDescriptorFindsItsFrame(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		var frames []frame.Frame
		descriptors := map[uint64]int{}
		for id := range uint64(1 + random.IntN(30)) {
			f := randomFrame(random, id+1)
			frames = append(frames, f)
			if f.Type == frame.Give {
				descriptors[f.ID] = uniqueDescriptor(t)
			}
		}
		sender, receiver := pair(t)
		failed := make(chan error, 1)
		pieces := cut(random, frames, descriptors)
		go func() { failed <- sendPieces(sender, pieces) }()
		expectFrames(t, receiver, frames, descriptors)
		must(t, <-failed)
		for _, fd := range descriptors {
			must(t, unix.Close(fd))
		}
	}
}

func sendPieces(sender *net.UnixConn, pieces []piece) error {
	for _, p := range pieces {
		var rights []byte
		if p.descriptor >= 0 {
			rights = unix.UnixRights(p.descriptor)
		}
		n, _, err := sender.WriteMsgUnix(p.bytes, rights, nil)
		if err == nil {
			_, err = sender.Write(p.bytes[n:])
		}
		if err != nil {
			return err
		}
	}
	return sender.CloseWrite()
}

func expectFrames(t *testing.T, receiver *net.UnixConn, frames []frame.Frame, descriptors map[uint64]int) {
	t.Helper()
	c, err := channel.Open(receiver)
	must(t, err)
	r := channel.NewReader(c, limits)
	defer r.Close()
	for _, want := range frames {
		got, descriptor, err := r.Next()
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		sent, gift := descriptors[got.ID]
		if !gift {
			sent = channel.NoDescriptor
		}
		if identity(t, descriptor) != identity(t, sent) {
			t.Fatalf("frame %d came with %s, not %s", got.ID, identity(t, descriptor), identity(t, sent))
		}
		channel.Close([]int{descriptor})
	}
	if f, _, err := r.Next(); err != io.EOF {
		t.Fatalf("behind the last: %+v, %v", f, err)
	}
}

func uniqueDescriptor(t *testing.T) int {
	t.Helper()
	fd, err := unix.MemfdCreate("unique", unix.MFD_CLOEXEC)
	must(t, err)
	return fd
}

func identity(t *testing.T, fd int) string {
	t.Helper()
	if fd < 0 {
		return fmt.Sprint("nothing, ", fd)
	}
	var stat unix.Stat_t
	must(t, unix.Fstat(fd, &stat))
	return fmt.Sprint("inode ", stat.Ino)
}

// A socket that is full takes a frame in parts: the descriptor goes once, and a
// context that ends leaves a frame whole or not begun, or says that it is torn.
func TestSendToOneWhoDoesNotRead(t *testing.T) {
	sender, receiver := pair(t)
	c, err := channel.Open(sender)
	must(t, err)
	fd := uniqueDescriptor(t)
	defer func() { must(t, unix.Close(fd)) }()
	f := frame.Frame{Type: frame.Give, Kind: frame.File, ID: 1, Prefix: make([]byte, 1<<16)}
	sent := 0
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		f.ID = uint64(sent + 1)
		done, err := c.TrySend(f.Append(nil), fd)
		if !done {
			err = c.Finish(ctx)
		}
		cancel()
		if err != nil {
			break
		}
		sent++
	}
	must(t, sender.CloseWrite())
	in, err := channel.Open(receiver)
	must(t, err)
	r := channel.NewReader(in, limits)
	defer r.Close()
	whole := 0
	for ; ; whole++ {
		_, descriptor, err := r.Next()
		if err != nil {
			break
		}
		if identity(t, descriptor) != identity(t, fd) {
			t.Fatalf("frame %d came with %s", whole+1, identity(t, descriptor))
		}
		channel.Close([]int{descriptor})
	}
	if whole != sent || sent == 0 {
		t.Errorf("%d frames were sent, %d arrived whole", sent, whole)
	}
}
