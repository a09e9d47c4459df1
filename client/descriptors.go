package client

import (
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// received are the descriptors that came with frames: those of MEMORY, and those
// of replies. It belongs to the input.
type received struct {
	calls    bool // they may come with replies
	awaited  bool // they may come with the next read
	arrivals transport.Arrivals
	frame    transport.Descriptors // those of the frame that is being handled
}

// expectDescriptors makes reading take those that were agreed to.
func (c *connection) expectDescriptors(accepted wire.Feature) {
	r := &c.input.received
	r.calls = accepted&wire.FeatureDescriptors != 0
	r.awaited = r.calls || accepted&wire.FeatureSharedMemory != 0
	switch {
	case r.calls:
		c.conn.(transport.LocalConn).ExpectDescriptors(wire.FileDescriptorsPerFrameMax)
	case r.awaited:
		c.conn.(transport.LocalConn).ExpectDescriptors(wire.MemoryDescriptors)
	}
}

// memoryCame ends the waiting for the descriptors of MEMORY.
func (c *connection) memoryCame() {
	r := &c.input.received
	if r.awaited = r.calls; !r.awaited {
		c.conn.(transport.LocalConn).ExpectDescriptors(0)
	}
}

// filled takes note of what a read has put into the input, and of what came along.
func (c *connection) filled(n int, err error) error {
	in := &c.input
	former := uint64(in.end - in.start)
	in.end += n
	if in.received.awaited {
		came := c.conn.(transport.LocalConn).Received()
		if err := in.received.arrivals.Add(came, in.taken+former, in.taken+former+uint64(n)); err != nil {
			return err
		}
	}
	if n > 0 {
		return nil
	}
	return err
}

// takeDescriptors makes those that came with the frame of that header, which begins
// at the front of the input, those of the frame. What is wrong with MEMORY costs no more than the memory.
func (in *input) takeDescriptors(header *wire.Header) (err error) {
	r := &in.received
	if header.Descriptors == 0 && !r.arrivals.Waiting() {
		return nil
	}
	announced := int(header.Descriptors)
	if header.Type == wire.Memory {
		announced = transport.AnyNumber
	}
	r.frame, err = r.arrivals.Take(in.taken, in.taken+wire.HeaderBytes+uint64(header.Length), announced)
	return err
}

// takeFrame ends the frame's hold of its descriptors.
func (r *received) takeFrame() (d transport.Descriptors) {
	d, r.frame = r.frame, d
	return d
}

// where in a header it says how many descriptors come with the frame.
const descriptorsKnownBytes = 8

// check refuses descriptors whose frame is not complete, and cannot be one that may
// have them.
func (in *input) checkDescriptors() error {
	if !in.received.arrivals.Waiting() {
		return nil
	}
	head := in.unread()
	switch {
	case in.large.left > 0 || len(head) == 0:
		return transport.ErrDescriptors
	case len(head) < descriptorsKnownBytes || wire.FrameType(head[typeKnownBytes-1]) == wire.Memory:
		return nil
	case !in.received.calls || head[descriptorsKnownBytes-1] == 0:
		return transport.ErrDescriptors
	}
	return nil
}

// close closes what nobody has taken.
func (r *received) close() {
	r.arrivals.Close()
	r.takeFrame().Close()
}

// descriptorsLost is how a call ends whose reply could not bring its descriptors.
func descriptorsLost() *status.Error {
	return status.Errorf(status.ResourceExhausted, "the function ran, but the files of its result did not arrive: this process has as many open as it may (RLIMIT_NOFILE, ulimit -n)").
		With(status.OutcomeExecutedResultLost)
}

// checkDescriptors refuses a request whose files the connection does not take.
func (c *connection) checkDescriptors(count int) *status.Error {
	switch {
	case count == 0 || c.welcome.Accepted&wire.FeatureDescriptors != 0:
		return nil
	case !c.local:
		return notExecuted(status.PermissionDenied, "files and connections travel over local sockets only, and %s is none", c.client.address)
	}
	return notExecuted(status.PermissionDenied, "the server at %s does not let this process pass files or connections; its operator allows it by server.WithFileDescriptors", c.client.address)
}
