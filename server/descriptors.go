package server

import (
	"errors"
	"time"

	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// How long a reply waits before it tries again to send descriptors that the kernel has
// refused. The kernel does not say when it would take them.
const (
	refusedPauseMin = time.Millisecond
	refusedPauseMax = 50 * time.Millisecond
)

// received holds the descriptors that came with frames. It belongs to the reader.
type received struct {
	agreed   bool // the feature was accepted
	arrivals transport.Arrivals
	frame    transport.Descriptors // descriptors of the frame that is being handled
}

// descriptorsAllowed reports whether the feature is accepted on this connection.
func (c *connection) descriptorsAllowed() bool {
	_, local := c.conn.(transport.LocalConn)
	allow := c.server.config.allowDescriptors
	return local && allow != nil && allow(c.peer)
}

// agreeDescriptors makes reading accept descriptors.
func (c *connection) agreeDescriptors() {
	c.received.agreed = true
	c.conn.(transport.LocalConn).ExpectDescriptors(wire.FileDescriptorsPerFrameMax)
}

// noteArrivals records with which bytes of the input descriptors have arrived. former
// is how many unread bytes there were before.
func (c *connection) noteArrivals(former int) error {
	if !c.received.agreed {
		return nil
	}
	came := c.conn.(transport.LocalConn).Received()
	return c.received.arrivals.Add(came, c.in.taken+uint64(former), c.in.taken+uint64(len(c.in.unread())))
}

// handleFrame handles c.frame, which was just taken from the input, with the
// descriptors that came with it. Those that nobody takes are closed.
func (c *connection) handleFrame(bytes int) (goOn bool, err error) {
	r := &c.received
	if c.frame.Descriptors == 0 && !r.arrivals.Waiting() {
		return frameHandlers[c.frame.Type](c)
	}
	if r.frame, err = r.arrivals.Take(c.in.taken-uint64(bytes), c.in.taken, int(c.frame.Descriptors)); err != nil {
		return true, err
	}
	if goOn, err = frameHandlers[c.frame.Type](c); goOn {
		c.dropDescriptors()
	}
	return goOn, err
}

// dropDescriptors closes the descriptors of the frame.
func (c *connection) dropDescriptors() {
	c.received.frame.Close()
	c.received.frame = transport.Descriptors{}
}

// checkDescriptors refuses a request whose descriptors were lost, or whose function
// passes files although that was not agreed. If the function passes none, it closes
// those that came.
func (c *connection) checkDescriptors(f *function) *status.Error {
	switch {
	case c.received.frame.Truncated:
		return refusedf(status.ResourceExhausted, "the descriptors of the request did not arrive: the server's process has as many open as it may (RLIMIT_NOFILE, ulimit -n)")
	case !f.UsesDescriptors():
		if len(c.received.frame.Numbers) > 0 {
			c.dropDescriptors()
		}
		return nil
	case c.received.frame.Crowded():
		return refusedf(status.ResourceExhausted, "the server closes very many files that others sent, and cannot take more whose closing may take long")
	case c.received.agreed || c.frame.Codec == wire.CodecJSON:
		return nil // JSON is refused with a better reason
	case !c.descriptorsAllowed():
		return refusedf(status.PermissionDenied, "%s passes files or connections, which this peer may not: it needs a local socket, and a server that allows it (server.WithFileDescriptors)", f.name)
	}
	return refusedf(status.FailedPrecondition, "%s passes files or connections, and the caller's hello did not offer feature bit 2 (file descriptors)", f.name)
}

// takeDescriptors gives the call a table with the descriptors that came with its
// request.
func (e *execution) takeDescriptors() {
	if !e.function.UsesDescriptors() {
		return
	}
	frame := &e.connection.received.frame
	e.files = &descriptors.Table{CloseGiven: true}
	e.files.Put(frame.Numbers)
	*frame = transport.Descriptors{}
}

// answerWithDescriptors sends a REPLY with its files. The caller flushes. If admitted
// forgets the call, the call still counts as in flight while its reply waits for the
// kernel.
func (c *connection) answerWithDescriptors(e *execution, header *wire.Header, extensions []byte, admitted func()) {
	header.Descriptors = uint8(len(e.files.Going()))
	frame := (&wire.Frame{Header: *header, Extensions: extensions, Payload: e.result}).Append(nil)
	e.result = nil // the copy may wait for long, and only it is counted
	pause := refusedPauseMin
	for until := time.Now().Add(c.server.config.writeTimeout); ; pause = min(2*pause, refusedPauseMax) {
		refused := c.out.sendDescriptors(frame, e.files.Going(), admitted, nil)
		if refused == nil || c.gate.Load() {
			return
		}
		if errors.Is(refused, errNoOutputRoom) {
			c.fail(e.id, c.user.output.lost(e.function.name, int64(len(frame))), nil, admitted)
			return
		}
		if admitted != nil {
			c.remind(e)
		}
		if time.Now().After(until) {
			c.fail(e.id, status.Errorf(status.ResourceExhausted, "the files that %s returned cannot be sent: %w", e.function.name, refused).
				With(status.OutcomeExecutedResultLost), nil, admitted)
			return
		}
		time.Sleep(pause)
	}
}

// errNoOutputRoom says that the user has no room for a frame, so it is not tried again.
var errNoOutputRoom = errors.New("there is no room for what waits to be read")

// sendDescriptors writes a frame with descriptors in a message of its own, between the
// frames that others write. admitted is as in append, but is not called if
// errNoOutputRoom is returned. sent is called when the frame was sent, before any other
// frame follows. Both may be nil. An error means that nothing was sent and the
// connection is as it was. Any other failure closes the connection.
func (o *output) sendDescriptors(frame []byte, descriptors []int, admitted, sent func()) (refused error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.waitToWriteLocked(len(frame)) {
		return errNoOutputRoom
	}
	if admitted != nil {
		admitted()
	}
	if o.broken {
		return nil
	}
	o.unlockAndWrite(len(frame), func() error {
		err := o.conn.(transport.LocalConn).SendDescriptors(frame, descriptors...)
		if errors.Is(err, transport.ErrNotSent) {
			refused, err = err, nil
		}
		return err
	})
	if refused == nil && sent != nil {
		sent()
	}
	// A goroutine that flushed meanwhile has left its frames to this writer.
	o.flushLocked()
	return refused
}

// waitToWriteLocked waits until nobody writes and there is room for a frame of so many
// bytes. It reports false if there will be none.
func (o *output) waitToWriteLocked(bytes int) bool {
	for {
		for o.writing && !o.broken {
			o.room.Wait()
		}
		if !o.waitLocked(bytes, socketOnly) {
			return false
		}
		if !o.writing || o.broken {
			return true
		}
	}
}
