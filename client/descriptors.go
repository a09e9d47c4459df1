package client

import (
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// received holds the descriptors that came with frames: those of MEMORY and those of
// replies.
type received struct {
	calls    bool // replies may bring some, for their values or for stores
	awaited  bool // the next read may bring some
	arrivals transport.Arrivals
	frame    transport.Descriptors // the descriptors of the frame that is being handled
}

// expectDescriptors makes reading accept the descriptors that were agreed on.
func (c *connection) expectDescriptors(accepted wire.Feature) {
	r := &c.reader.received
	r.calls = accepted&(wire.FeatureDescriptors|wire.FeatureStores) != 0
	r.awaited = r.calls || accepted&wire.FeatureSharedMemory != 0
	switch {
	case r.calls:
		c.carrier.(transport.LocalConn).ExpectDescriptors(wire.FileDescriptorsPerFrameMax)
	case r.awaited:
		c.carrier.(transport.LocalConn).ExpectDescriptors(wire.MemoryDescriptors)
	}
}

// memoryCame ends the wait for the descriptors of MEMORY.
func (c *connection) memoryCame() {
	r := &c.reader.received
	if r.awaited = r.calls; !r.awaited {
		c.carrier.(transport.LocalConn).ExpectDescriptors(0)
	}
}

// filled records what a read has put into the input, and the descriptors that came with
// it.
func (c *connection) filled(n int, err error) error {
	in, received := &c.reader.input, &c.reader.received
	former := uint64(in.end - in.start)
	in.end += n
	if received.awaited {
		came := c.carrier.(transport.LocalConn).Received()
		if err := received.arrivals.Add(came, in.taken+former, in.taken+former+uint64(n)); err != nil {
			return err
		}
	}
	if n > 0 {
		return nil
	}
	return err
}

// takeDescriptors finds the descriptors that came with the frame at the front of the
// input, whose header this is, and makes them those of the frame. If there is something
// wrong with MEMORY, only the shared memory is lost.
func (r *reader) takeDescriptors(header *wire.Header) (err error) {
	came, in := &r.received, &r.input
	if header.Descriptors == 0 && !came.arrivals.Waiting() {
		return nil
	}
	announced := int(header.Descriptors)
	if header.Type == wire.Memory {
		announced = transport.AnyNumber
	}
	came.frame, err = came.arrivals.Take(in.taken, in.taken+wire.HeaderBytes+uint64(header.Length), announced)
	return err
}

// takeFrame returns the descriptors of the frame, which then no longer holds them.
func (r *received) takeFrame() (d transport.Descriptors) {
	d, r.frame = r.frame, d
	return d
}

// descriptorsKnownBytes is how many bytes of a header must be there to know how many
// descriptors come with the frame.
const descriptorsKnownBytes = 8

// checkDescriptors refuses descriptors that came with an incomplete frame of a kind
// that may not have any.
func (r *reader) checkDescriptors() error {
	if !r.received.arrivals.Waiting() {
		return nil
	}
	head := r.input.unread()
	switch {
	case r.large.left > 0 || len(head) == 0:
		return transport.ErrDescriptors
	case len(head) < descriptorsKnownBytes || wire.FrameType(head[typeKnownBytes-1]) == wire.Memory:
		return nil
	case !r.received.calls || head[descriptorsKnownBytes-1] == 0:
		return transport.ErrDescriptors
	}
	return nil
}

// close closes the descriptors that nobody has taken.
func (r *received) close() {
	r.arrivals.Close()
	r.takeFrame().Close()
}

// descriptorsLost is the error of a call whose reply lost its descriptors on the way.
func descriptorsLost() *status.Error {
	return status.Errorf(status.ResourceExhausted, "the function ran, but the files of its result did not arrive: this process has as many open as it may (RLIMIT_NOFILE, ulimit -n)").
		With(status.OutcomeExecutedResultLost)
}

// checkDescriptors refuses a request with files if the connection does not pass any.
func (c *connection) checkDescriptors(count int) *status.Error {
	switch {
	case count == 0 || c.welcome.Accepted&wire.FeatureDescriptors != 0:
		return nil
	case !c.local:
		return notExecuted(status.PermissionDenied, "files and connections travel over local sockets only, and %s is none", c.endpoint.address)
	}
	return notExecuted(status.PermissionDenied, "the server at %s does not let this process pass files or connections; its operator allows it by server.WithFileDescriptors", c.endpoint.address)
}
