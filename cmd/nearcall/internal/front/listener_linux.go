package front

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
)

// A listener is a listening socket of the front.
type listener struct {
	config atomic.Pointer[config.Listen]
	// shared is what a successor gets. Nobody accepts from it.
	shared net.Listener
	// file is the same socket for accepting: without the system calls that package
	// net makes for each connection.
	file *os.File
	raw  syscall.RawConn
	// empties tells the acceptor to take all that the kernel has queued before it
	// ends, for nobody else will.
	empties  atomic.Bool
	accepted prometheus.Counter
	// closed is closed when the socket is.
	closed chan struct{}
}

type filer interface{ File() (*os.File, error) }

// newListener takes a listening socket over; it is closed with the listener, and
// on an error.
func newListener(socket net.Listener, c config.Listen, accepted prometheus.Counter) (*listener, error) {
	l := &listener{shared: socket, accepted: accepted, closed: make(chan struct{})}
	has, ok := socket.(filer)
	if !ok {
		return nil, errors.Join(errors.ErrUnsupported, socket.Close())
	}
	if unix, ok := socket.(*net.UnixListener); ok {
		// A successor may be listening there.
		unix.SetUnlinkOnClose(false)
		// Clients have none to send, and nobody here would take them.
		unixsocket.PassRights(unix, false)
	}
	file, err := has.File()
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	l.file = file
	if l.raw, err = file.SyscallConn(); err == nil {
		err = l.use(c)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// use applies a configuration for the same address.
func (l *listener) use(c config.Listen) error {
	l.config.Store(&c)
	if _, tcp := l.shared.Addr().(*net.TCPAddr); !tcp {
		return nil
	}
	// Beyond this the connection is accepted without a byte, and gets its 408.
	const deferSeconds = 10
	seconds := 0
	if c.DeferAccept {
		seconds = deferSeconds
	}
	var failed error
	err := l.raw.Control(func(fd uintptr) { failed = errors.Join(sendAtOnce(fd), deferAccept(fd, seconds)) })
	return errors.Join(err, failed)
}

// open listens on an address of the configuration.
func open(ctx context.Context, c config.Listen) (net.Listener, error) {
	parsed, err := address.Parse(c.Address, false)
	if err != nil {
		return nil, err
	}
	if parsed.Network == "unix" {
		if err := unixsocket.RemoveDead(parsed.Target); err != nil {
			return nil, err
		}
	}
	configuration := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		// Nobody is to send any, from the first connection on. What is not local has none.
		return raw.Control(func(fd uintptr) { rights.Refuse(int(fd)) })
	}}
	// Plain TCP: receivers of other languages know its options.
	configuration.SetMultipathTCP(false)
	return configuration.Listen(ctx, parsed.Network, parsed.Target)
}

// accept calls serve with each connection until the listener is stopped.
func (l *listener) accept(serve func(*connection), failed func(error)) {
	const pauseLeast, pauseMost = 5 * time.Millisecond, time.Second
	var accepted *connection
	var problem error
	take := func(fd uintptr) bool {
		var again bool
		accepted, again, problem = accept(fd, l.config.Load().DeferAccept)
		return !again
	}
	pause := pauseLeast
	for {
		err := l.raw.Read(take)
		switch {
		case err != nil:
			l.takeQueued(serve)
			return
		case problem != nil:
			// No descriptor is free: those that are held will be, in time.
			failed(problem)
			time.Sleep(pause)
			pause = min(2*pause, pauseMost)
		default:
			pause = pauseLeast
			l.accepted.Inc()
			serve(accepted)
		}
	}
}

// takeQueued accepts what the kernel has, and waits for no more.
func (l *listener) takeQueued(serve func(*connection)) {
	if !l.empties.Load() {
		return
	}
	_ = l.raw.Control(func(fd uintptr) {
		for {
			c, again, err := accept(fd, l.config.Load().DeferAccept)
			if again || err != nil {
				return
			}
			l.accepted.Inc()
			serve(c)
		}
	})
}

// stop makes accept return. last: nobody else accepts from this socket.
func (l *listener) stop(last bool) {
	l.empties.Store(last)
	_ = l.file.SetReadDeadline(time.Unix(1, 0))
}

func (l *listener) close() error { return errors.Join(l.file.Close(), l.shared.Close()) }
