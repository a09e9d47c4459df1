package channel_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/request"
	"github.com/nearcall/nearcall/tests/processes"
)

const patience = 5 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pair returns a resident's connection, and its launcher's end.
func pair(t *testing.T) (*channel.Conn, *net.UnixConn) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	own, err := channel.FromDescriptor(ends[0])
	must(t, err)
	file := os.NewFile(uintptr(ends[1]), "launcher")
	defer file.Close()
	made, err := net.FileConn(file)
	must(t, err)
	t.Cleanup(func() { made.Close() })
	return own, made.(*net.UnixConn)
}

// What nobody has received does not hold up whoever closes the connection.
func TestCloseEmptiesTheQueue(t *testing.T) {
	own, launcher := pair(t)
	trapper := rightstest.NewTrapper(t)
	for range 3 {
		must(t, trapper.LeaveTo(launcher, []byte("unread")))
	}
	must(t, processes.Within(t, "the end of a connection with sockets that linger in its queue", patience, own.Close))
}

// Descriptors that come with a frame belong to nothing: they end the connection, and do not
// hold up whoever reads it.
func TestFramesBringNoDescriptors(t *testing.T) {
	for name, before := range map[string][]byte{"with a frame": nil, "with its text": request.Frame{Text: "text"}.Append(nil)[:request.FrameHeaderBytes]} {
		t.Run(name, func(t *testing.T) {
			own, launcher := pair(t)
			defer own.Close()
			_, err := launcher.Write(before)
			must(t, err)
			must(t, rightstest.NewTrapper(t).LeaveTo(launcher, request.Frame{}.Append(nil)))
			err = processes.Within(t, "a frame with a socket that lingers to be read", patience, func() error {
				_, err := own.Read()
				return err
			})
			if !errors.Is(err, request.ErrMalformed) {
				t.Errorf("Read: %v, want ErrMalformed", err)
			}
		})
	}
}

// Another process that was given the connection receives what comes.
func TestCloseLeavesWhatIsPassedOn(t *testing.T) {
	own, launcher := pair(t)
	_, err := launcher.Write([]byte("for the worker"))
	must(t, err)
	var worker int
	must(t, own.PassOn(func(fd int) (err error) {
		worker, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	}))
	must(t, own.Close())
	defer unix.Close(worker)
	b := make([]byte, 64)
	n, err := unix.Read(worker, b)
	if err != nil || string(b[:n]) != "for the worker" {
		t.Errorf("the other process reads %q, %v", b[:n], err)
	}
}
