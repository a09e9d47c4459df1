package gateway

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// An inlet is a listener whose connections come from elsewhere. Closing it ends its Accept, and
// leaves open where they come from.
type inlet struct {
	conns  <-chan net.Conn
	addr   net.Addr
	once   sync.Once
	closed chan struct{}
	// paused is closed when no more connections are to come, although Accept still waits.
	paused chan struct{}
}

func newInlet(conns <-chan net.Conn, addr net.Addr) *inlet {
	return &inlet{conns: conns, addr: addr, closed: make(chan struct{}), paused: make(chan struct{})}
}

// pause lets no more connections come. It is called once.
func (i *inlet) pause() { close(i.paused) }

// Accept implements net.Listener.
func (i *inlet) Accept() (net.Conn, error) {
	select {
	case <-i.closed:
		return nil, net.ErrClosed
	case <-i.paused:
		<-i.closed
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-i.conns:
		return conn, nil
	case <-i.paused:
		<-i.closed
	case <-i.closed:
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (i *inlet) Close() error {
	i.once.Do(func() { close(i.closed) })
	return nil
}

// Addr implements net.Listener.
func (i *inlet) Addr() net.Addr { return i.addr }

// A door is a listener through which one server after the other gets its connections. Callers that
// connect while there is none wait.
type door struct {
	real   net.Listener
	conns  chan net.Conn
	closed chan struct{}
}

// acceptPause is how long a door waits if the system is short of something.
const acceptPause = 10 * time.Millisecond

func newDoor(real net.Listener) *door {
	d := &door{real: real, conns: make(chan net.Conn), closed: make(chan struct{})}
	go d.run()
	return d
}

// view returns a listener for the next server.
func (d *door) view() *inlet { return newInlet(d.conns, d.real.Addr()) }

func (d *door) run() {
	for {
		conn, err := d.real.Accept()
		switch {
		case errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed):
			return
		case err != nil:
			select {
			case <-time.After(acceptPause):
			case <-d.closed:
				return
			}
			continue
		}
		select {
		case d.conns <- conn:
		case <-d.closed:
			conn.Close()
		}
	}
}

// close ends listening. Servers that have views go on with the connections that they have.
func (d *door) close() error {
	close(d.closed)
	return d.real.Close()
}
