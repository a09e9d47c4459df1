package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

const (
	// relayDial bounds how long connecting to a server of this machine may take.
	relayDial = 5 * time.Second
	// relayLinger is how long a caller has to close after the server has closed.
	relayLinger = 5 * time.Second
	// A relay that has nothing to do holds little memory: relayIdle in each direction, and
	// relayBusy while there is more to copy.
	relayIdle = 2 << 10
	relayBusy = 64 << 10
)

// A half is a connection of which one direction can be ended.
type half interface {
	net.Conn
	CloseWrite() error
}

// relay takes connections of other gateways and connects each to the server.
func (e *exported) relay(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		e.streams.Add(1)
		e.streamsTotal.Add(1)
		go func() {
			defer e.streams.Add(-1)
			e.relayOne(conn.(half))
		}()
	}
}

// relayOne copies the bytes of both directions until the connection has ended. What the caller says
// first is looked at, because it cannot use what only a process of this machine can. Nothing else
// is.
func (e *exported) relayOne(far half) {
	defer far.Close()
	defer e.gateway.peers.enter(far)()
	ctx, cancel := context.WithTimeout(context.Background(), relayDial)
	defer cancel()
	hello, err := readHello(far)
	if err != nil {
		e.log.Debug("a connection of another gateway", "peer", far.RemoteAddr().String(), "error", err)
		return
	}
	var dialer net.Dialer
	dialled, err := dialer.DialContext(ctx, "unix", socketPath(e.config.Address))
	if err != nil {
		e.log.Warn("the server cannot be connected to", "address", e.config.Address, "error", err)
		return
	}
	near := dialled.(*net.UnixConn)
	defer near.Close()
	if _, err := near.Write(hello); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { toServer(near, far) })
	both.Go(func() { toCaller(far, near) })
	both.Wait()
}

// localFeatures are those that need a caller on the same machine.
const localFeatures = wire.FeatureSharedClock | wire.FeatureDescriptors | wire.FeatureSharedMemory | wire.FeatureStores | wire.FeatureDirections

// readHello reads the first bytes of a connection, and returns them without the features that the
// caller of another machine must not have: the server takes the gateway for the caller. What is no
// hello is refused, because the simple protocol tells a server nothing of who is at the other end.
func readHello(from net.Conn) ([]byte, error) {
	_ = from.SetReadDeadline(time.Now().Add(wire.HelloTimeoutMs * time.Millisecond))
	got := make([]byte, 0, wire.HelloBytesMax)
	for {
		var hello wire.Hello
		taken, err := wire.ParseHello(got, &hello)
		if err != nil {
			return nil, err
		}
		if taken > 0 {
			hidden := withoutFeatures(got[:taken], hello.Offered&^localFeatures)
			return append(hidden, got[taken:]...), from.SetReadDeadline(time.Time{})
		}
		n, err := from.Read(got[len(got):cap(got)])
		if err != nil {
			return nil, err
		}
		got = got[:len(got)+n]
	}
}

// helloOffered is where a hello says which features are offered: see spec/wire-format.md.
const helloOffered = 16

// withoutFeatures returns a copy of a hello that offers other features.
func withoutFeatures(hello []byte, offered wire.Feature) []byte {
	made := slices.Clone(hello)
	binary.LittleEndian.PutUint64(made[helloOffered:], uint64(offered))
	return made
}

// toServer copies what the caller sends. A server that does not read any more may have said why, so
// the other direction ends by itself then.
func toServer(near, far half) {
	err := copyAll(near, far)
	var unwritable *unwritableError
	switch {
	case err == nil:
		_ = near.CloseWrite()
	case !errors.As(err, &unwritable):
		_ = near.Close() // the caller is gone, and its calls end
	}
}

// toCaller copies what the server sends. A server ends both directions at once, so its caller has a
// moment to take note and to close.
func toCaller(far, near half) {
	if err := copyAll(far, near); err != nil {
		_ = near.Close()
		_ = far.Close()
		return
	}
	_ = far.CloseWrite()
	_ = far.SetReadDeadline(time.Now().Add(relayLinger))
}

// An unwritableError is why a copy ended that could be read.
type unwritableError struct{ error }

// copyAll copies until the end. Its buffer grows while there is much to copy.
func copyAll(to io.Writer, from io.Reader) error {
	small := make([]byte, relayIdle)
	var large []byte
	for {
		buffer := small
		if large != nil {
			buffer = large
		}
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return &unwritableError{err}
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case n == len(buffer) && large == nil:
			large = make([]byte, relayBusy)
		case n < relayIdle:
			large = nil
		}
	}
}
