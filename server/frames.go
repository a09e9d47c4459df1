package server

import (
	"context"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A frameHandler handles r.frame. goOn is false if its goroutine is no longer the
// reader.
type frameHandler func(r *reader) (goOn bool, err error)

// frameHandlers has a handler for every type of frame that the parser lets through.
var frameHandlers = [...]frameHandler{
	wire.Request: (*reader).onRequest,
	wire.Cancel:  (*reader).onCancel,
	wire.Ping:    (*reader).onPing,
	wire.Pong:    (*reader).onPong,
	wire.Resolve: (*reader).onResolve,
	wire.Wake:    (*reader).onWake,
	wire.Store:   (*reader).onStore,
	wire.Release: (*reader).onRelease,
	wire.Ask:     (*reader).onAsk,
}

// onWake does nothing: the reader looks at its ring after every frame.
func (r *reader) onWake() (bool, error) { return true, nil }

func (r *reader) onPing() (bool, error) {
	header := wire.Header{Type: wire.Pong}
	r.connection.output.append(&header, r.frame.Payload, nil)
	return true, nil
}

// onPong refuses the frame, because this server sends no pings.
func (r *reader) onPong() (bool, error) {
	return true, &wire.ProtocolError{Text: "a PONG for which there was no PING"}
}

func (r *reader) onCancel() (bool, error) {
	if e := r.connection.calls.find(r.frame.CallID); e != nil {
		e.cancel(context.Canceled)
	}
	return true, nil
}

func (r *reader) onResolve() (bool, error) {
	c := r.connection
	if !r.take() {
		return true, nil
	}
	f := c.service.table.byName[string(r.frame.Payload)]
	if f == nil {
		c.sendFailure(r.frame.CallID, c.server.noSuchFunction(string(r.frame.Payload)))
		return true, nil
	}
	if len(f.description) > c.agreed.frameBytesMax {
		c.sendFailure(r.frame.CallID, refusedf(status.ResourceExhausted, "the description of %s has %d bytes, the caller accepts %d (limit frame_bytes_max); %s", f.name, len(f.description), c.agreed.frameBytesMax, raiseCallersFrameBytes))
		return true, nil
	}
	extensions := c.withDirection(f, nil, len(f.description))
	header := wire.Header{Type: wire.Reply, Codec: wire.CodecMessagePack, CallID: r.frame.CallID, FunctionID: f.id, ExtensionBytes: uint32(len(extensions))}
	if !c.output.append(&header, behind(extensions, f.description), nil) {
		c.sendFailure(r.frame.CallID, c.user.output.refusal(int64(len(f.description))))
	}
	return true, nil
}

// take counts a request and reports whether it will be served. A drain may have ruled
// that out.
func (r *reader) take() bool {
	c := r.connection
	if r.requests == 0 {
		r.beginMarks()
	}
	r.requests++
	if r.requests == c.server.config.memoryAfterCalls {
		r.memoryDue = r.parser.Features&wire.FeatureSharedMemory != 0
	}
	return c.calls.accept(r.frame.CallID)
}

func (r *reader) onRequest() (bool, error) {
	c := r.connection
	if !r.take() {
		return true, nil
	}
	if r.frame.ExtensionBytes > 0 {
		if refusal := r.claimStored(); refusal != nil {
			r.refuse(nil, refusal)
			return true, nil
		}
	}
	f, err := r.function()
	if err != nil {
		r.refuse(f, status.FromError(err))
		return true, nil
	}
	if f.identities != nil {
		if refusal := f.refuses(c.names); refusal != nil {
			r.refuse(f, refusal)
			return true, nil
		}
	}
	// A request without a check was not encoded by a description.
	if check := r.frame.Status; check != 0 && check != f.check {
		r.refuse(f, otherDescription(f.name))
		return true, nil
	}
	if refusal := r.checkDescriptors(f); refusal != nil {
		r.refuse(f, refusal)
		return true, nil
	}
	r.readClock(f)
	expiryNs, passed := r.expiry()
	if passed {
		r.refuse(f, refusedf(status.DeadlineExceeded, "the deadline passed before the server read the request"))
		return true, nil
	}
	held := c.mustHoldBack(f) && !c.output.promiseNow(c.toPromise(f))
	if !held && f.inline() && r.stored == nil {
		return r.runInline(f, expiryNs), nil
	}
	r.runApart(f, expiryNs, held)
	return true, nil
}

// refuse answers the request with a failure, before anything of it ran. f is nil if there is
// no such function.
func (r *reader) refuse(f *function, failure *status.Error) {
	c, bytes := r.connection, int(r.frame.Length-r.frame.ExtensionBytes)+r.stored.size()
	r.stored.release()
	r.stored = nil
	c.sendFailure(r.frame.CallID, failure)
	if c.server.config.observer != nil {
		c.observeRefusedCall(f, bytes, failure)
	}
}

// function finds the function that the request names by id or by extension.
func (r *reader) function() (*function, error) {
	c := r.connection
	if r.frame.FunctionID != 0 {
		f := c.service.table.find(r.frame.FunctionID)
		if f == nil {
			return nil, refusedf(status.Unimplemented, "the server has no function with id %d; resolve its name again", r.frame.FunctionID)
		}
		return f, r.checkMandatory()
	}
	name, found := wire.FindExtension(r.frame.Extensions, wire.ExtensionFunctionName)
	if !found {
		return nil, refusedf(status.InvalidArgument, "the request has function id 0 and no name in extension 0x%04x", uint16(wire.ExtensionFunctionName))
	}
	f := c.service.table.byName[string(name)]
	if f == nil {
		return nil, c.server.noSuchFunction(string(name))
	}
	return f, r.checkMandatory()
}

func (r *reader) checkMandatory() error {
	if r.frame.ExtensionBytes == 0 {
		return nil
	}
	known := []wire.ExtensionType{wire.ExtensionFunctionName, wire.ExtensionStored}
	if r.connection.stores == nil {
		known = known[:1]
	}
	if t, found := wire.UnknownMandatory(r.frame.Extensions, known...); found {
		return refusedf(status.Unimplemented, "the request has extension 0x%04x, which this server does not understand", uint16(t))
	}
	return nil
}

// noSuchFunction returns the error for a name that is not in the table.
func (s *Server) noSuchFunction(name string) *status.Error {
	if s.config.unknownFunctions != nil {
		if err := s.config.unknownFunctions(name); err != nil {
			return status.FromError(withOutcome(err)).With(status.OutcomeNotExecuted)
		}
	}
	return refusedf(status.Unimplemented, "the server has no function %.255q; `nearcall list ADDRESS` shows what it has", name)
}

// otherDescription returns the error for arguments that would be read as other values
// than those their caller wrote.
func otherDescription(name string) *status.Error {
	return refusedf(status.Aborted, "the arguments were encoded by another description of %s than this server's: ask for its description again, then encode and send anew", name)
}

// expiry returns when the request expires on the server's clock, or 0 if it does not,
// and whether that moment has passed.
func (r *reader) expiry() (expiryNs uint64, passed bool) {
	if r.frame.Deadline == 0 {
		return 0, false
	}
	remaining := wire.DeadlineRemaining(r.frame.Deadline, r.nowNs/uint64(time.Millisecond), r.connection.agreed.sharedClock)
	return r.nowNs + uint64(max(remaining, 0)), remaining < 0
}
