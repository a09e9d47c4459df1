package handoff

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/nearcall/nearcall/handoff/internal/channel"
	"github.com/nearcall/nearcall/handoff/internal/frame"
	"github.com/nearcall/nearcall/handoff/internal/pipe"
)

// withDescriptor duplicates the gift into the peer's process and puts what stands for
// it into the frame. If the peer refuses the gift, closing the duplicate is up to the
// peer. What the peer was never told about is closed there, except for sockets, whose
// duplicates cannot be named.
func withDescriptor(g *gift, peer Credentials, use func(descriptor int) error) (err error) {
	process := uint32(peer.ProcessID)
	if g.frame.Kind == frame.File {
		return withFile(g, process, use)
	}
	if g.frame.Resource, err = duplicateSocket(g.what, process); err != nil {
		return err
	}
	return use(channel.NoDescriptor)
}

func withFile(g *gift, process uint32, use func(descriptor int) error) error {
	duplicate, err := pipe.DuplicateFile(g.what, process)
	if err != nil {
		return err
	}
	g.frame.Resource = duplicate.Resource
	// The peer does not act on a frame of which only a part was sent.
	if err := use(channel.NoDescriptor); err != nil {
		_ = duplicate.Withdraw() // fails if the peer has ended, and all its handles with it
		return err
	}
	duplicate.Keep()
	return nil
}

// duplicateSocket duplicates a socket that is not bound to a completion port: the
// receiver binds it to its own, which works only if it is bound to none.
func duplicateSocket(what syscall.Conn, process uint32) ([]byte, error) {
	socket, ok := what.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("%w: a %T has no socket that could be given", errors.ErrUnsupported, what)
	}
	file, err := socket.File()
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return pipe.DuplicateSocket(file, process)
}

// closeArrival closes what was duplicated into this process. To be closed, it has to be
// opened first.
func closeArrival(a *arrival) {
	if len(a.resource) == 0 {
		return
	}
	if a.kind != frame.File {
		if socket, err := pipe.OpenSocket(a.resource); err == nil {
			_ = windows.Closesocket(socket)
		}
		return
	}
	if file, err := pipe.OpenFile(a.resource, a.meta.Name); err == nil {
		_ = file.Close()
	}
}

func openSocket(a *arrival) (*os.File, error) {
	socket, err := pipe.OpenSocket(a.resource)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(socket), a.meta.Name), nil
}

func openConn(a *arrival) (net.Conn, error) {
	file, err := openSocket(a)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return net.FileConn(file)
}

func openListener(a *arrival) (net.Listener, error) {
	file, err := openSocket(a)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return net.FileListener(file)
}

func openFile(a *arrival) (*os.File, error) { return pipe.OpenFile(a.resource, a.meta.Name) }

func isLackOfDescriptors(err error) bool { return errors.Is(err, windows.WSAEMFILE) }
