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

// received holds the descriptors that came with frames.
type received struct {
	arrivals transport.Arrivals
	free     time.Time             // the user's pace allows to read on then; zero if it does
	frame    transport.Descriptors // descriptors of the frame that is being handled
}

// descriptorsAllowed reports whether the feature is accepted on this connection.
func (c *connection) descriptorsAllowed() bool {
	_, local := c.carrier.(transport.LocalConn)
	allow := c.server.config.allowDescriptors
	return local && allow != nil && allow(c.peer)
}

// agreeDescriptors makes reading accept descriptors.
func (r *reader) agreeDescriptors() {
	r.connection.agreed.descriptors = true
	r.connection.carrier.(transport.LocalConn).ExpectDescriptors(wire.FileDescriptorsPerFrameMax)
}

// noteArrivals records with which bytes of the input descriptors have arrived. former
// is how many unread bytes there were before.
func (r *reader) noteArrivals(former int) error {
	if !r.connection.agreed.descriptors {
		return nil
	}
	came := r.connection.carrier.(transport.LocalConn).Received()
	if count := came.Count(); count > 0 {
		r.received.free = r.connection.user.descriptors.count(count, time.Now())
	}
	return r.received.arrivals.Add(came, r.input.taken+uint64(former), r.input.taken+uint64(len(r.input.unread())))
}

// handleFrame handles r.frame, which was just taken from the input, with the
// descriptors that came with it. Those that nobody takes are closed.
func (r *reader) handleFrame(bytes int) (goOn bool, err error) {
	came := &r.received
	if r.frame.Descriptors == 0 && !came.arrivals.Waiting() {
		return frameHandlers[r.frame.Type](r)
	}
	if came.frame, err = came.arrivals.Take(r.input.taken-uint64(bytes), r.input.taken, int(r.frame.Descriptors)); err != nil {
		return true, err
	}
	if goOn, err = frameHandlers[r.frame.Type](r); goOn {
		r.dropDescriptors()
	}
	return goOn, err
}

// dropDescriptors closes the descriptors of the frame.
func (r *reader) dropDescriptors() {
	r.received.frame.Close()
	r.received.frame = transport.Descriptors{}
}

// checkDescriptors refuses a request whose descriptors were lost, or whose function
// passes files although that was not agreed. If the function passes none, it closes
// those that came.
func (r *reader) checkDescriptors(f *function) *status.Error {
	switch {
	case r.received.frame.Truncated:
		return refusedf(status.ResourceExhausted, "the descriptors of the request did not arrive: the server's process has as many open as it may (RLIMIT_NOFILE, ulimit -n)")
	case !f.UsesDescriptors():
		if len(r.received.frame.Numbers) > 0 {
			r.dropDescriptors()
		}
		return nil
	case r.received.frame.Crowded():
		return refusedf(status.ResourceExhausted, "the server closes very many files that others sent, and cannot take more whose closing may take long")
	case r.connection.agreed.descriptors || r.frame.Codec == wire.CodecJSON:
		return nil // JSON is refused with a better reason
	case !r.connection.descriptorsAllowed():
		return refusedf(status.PermissionDenied, "%s passes files or connections, which this peer may not: it needs a local socket, and a server that allows it (server.WithFileDescriptors)", f.name)
	}
	return refusedf(status.FailedPrecondition, "%s passes files or connections, and the caller's hello did not offer feature bit 2 (file descriptors)", f.name)
}

// takeDescriptors returns a table with the descriptors that came with the request, or nil
// if its function passes none.
func (r *reader) takeDescriptors(f *function) *descriptors.Table {
	if !f.UsesDescriptors() {
		return nil
	}
	files := &descriptors.Table{CloseGiven: true}
	files.Put(r.received.frame.Numbers)
	r.received.frame = transport.Descriptors{}
	return files
}

// answerWithDescriptors sends a REPLY with its files, and returns the failure that it told
// instead. The caller flushes. If admitted forgets the call, the call still counts as in
// flight while its reply waits for the kernel.
func (c *connection) answerWithDescriptors(e *execution, header *wire.Header, extensions []byte, admitted func()) *status.Error {
	header.Descriptors = uint8(len(e.files.Going()))
	frame := (&wire.Frame{Header: *header, Extensions: extensions, Payload: e.result}).Append(nil)
	e.result = nil // the copy may wait for long, and only it is counted
	refused := c.sendPatiently(e, frame, e.files.Going(), time.Now().Add(c.server.config.writeTimeout), admitted)
	if refused == nil {
		return nil
	}
	lost := c.user.output.lost(e.function.name, int64(len(frame)))
	if !errors.Is(refused, errNoOutputRoom) {
		lost = status.Errorf(status.ResourceExhausted, "the files that %s returned cannot be sent: %w", e.function.name, refused).
			With(status.OutcomeExecutedResultLost)
	}
	c.fail(e.id, lost, nil, admitted)
	return lost
}

// sendPatiently sends a frame with descriptors. While the kernel does not take these, it tries
// again. It returns what is still in the way after that time, or that there is no room.
func (c *connection) sendPatiently(e *execution, frame []byte, descriptors []int, until time.Time, admitted func()) error {
	for pause := refusedPauseMin; ; pause = min(2*pause, refusedPauseMax) {
		refused := c.output.sendDescriptors(frame, descriptors, admitted, nil)
		if refused == nil || c.gate.Load() {
			return nil
		}
		if errors.Is(refused, errNoOutputRoom) {
			return refused
		}
		if admitted != nil {
			c.calls.remind(e)
		}
		if time.Now().After(until) {
			return refused
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
		o.renewDeadline()
		defer o.liftDeadline()
		err := o.carrier.(transport.LocalConn).SendDescriptors(frame, descriptors...)
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
