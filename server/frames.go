package server

import (
	"context"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A frameHandler handles c.frame. goOn is false if its goroutine is no longer the
// reader.
type frameHandler func(c *connection) (goOn bool, err error)

// frameHandlers has a handler for every type of frame that the parser lets through.
var frameHandlers = [...]frameHandler{
	wire.Request: (*connection).onRequest,
	wire.Cancel:  (*connection).onCancel,
	wire.Ping:    (*connection).onPing,
	wire.Pong:    (*connection).onPong,
	wire.Resolve: (*connection).onResolve,
	wire.Wake:    (*connection).onWake,
}

// onWake does nothing: the reader looks at its ring after every frame.
func (c *connection) onWake() (bool, error) { return true, nil }

func (c *connection) onPing() (bool, error) {
	header := wire.Header{Type: wire.Pong}
	c.out.append(&header, c.frame.Payload, nil)
	return true, nil
}

// onPong refuses the frame, because this server sends no pings.
func (c *connection) onPong() (bool, error) {
	return true, &wire.ProtocolError{Text: "a PONG for which there was no PING"}
}

func (c *connection) onCancel() (bool, error) {
	c.mu.Lock()
	e := c.calls[c.frame.CallID]
	c.mu.Unlock()
	if e != nil {
		e.cancel(context.Canceled)
	}
	return true, nil
}

func (c *connection) onResolve() (bool, error) {
	if !c.take() {
		return true, nil
	}
	f := c.service.table.byName[string(c.frame.Payload)]
	if f == nil {
		c.sendFailure(c.frame.CallID, noSuchFunction(string(c.frame.Payload)))
		return true, nil
	}
	if len(f.description) > c.frameBytesMax {
		c.sendFailure(c.frame.CallID, refusedf(status.ResourceExhausted, "the description of %s has %d bytes, the caller accepts %d (limit frame_bytes_max); %s", f.name, len(f.description), c.frameBytesMax, raiseCallersFrameBytes))
		return true, nil
	}
	header := wire.Header{Type: wire.Reply, Codec: wire.CodecMessagePack, CallID: c.frame.CallID, FunctionID: f.id}
	if !c.out.append(&header, f.description, nil) {
		c.sendFailure(c.frame.CallID, c.user.output.refusal(int64(len(f.description))))
	}
	return true, nil
}

// take counts a request and reports whether it will be served. A drain may have ruled
// that out.
func (c *connection) take() bool {
	c.accepted.Store(max(c.frame.CallID, c.accepted.Load()))
	c.requests++
	if c.requests == c.server.config.memoryAfterCalls {
		c.memoryDue = c.parser.Features&wire.FeatureSharedMemory != 0
	}
	return c.covered(c.frame.CallID)
}

func (c *connection) onRequest() (bool, error) {
	if !c.take() {
		return true, nil
	}
	f, err := c.function()
	if err != nil {
		c.sendFailure(c.frame.CallID, status.FromError(err))
		return true, nil
	}
	// A request without a check was not encoded by a description.
	if check := c.frame.Status; check != 0 && check != f.check {
		c.sendFailure(c.frame.CallID, otherDescription(f.name))
		return true, nil
	}
	if refusal := c.checkDescriptors(f); refusal != nil {
		c.sendFailure(c.frame.CallID, refusal)
		return true, nil
	}
	c.readClock(f)
	expiryNs, passed := c.expiry()
	if passed {
		c.sendFailure(c.frame.CallID, refusedf(status.DeadlineExceeded, "the deadline passed before the server read the request"))
		return true, nil
	}
	held := c.mustHoldBack(f) && !c.out.promiseNow(c.toPromise(f))
	if !held && f.inline() {
		return c.runInline(f, expiryNs), nil
	}
	c.runApart(f, expiryNs, held)
	return true, nil
}

// function finds the function that the request names by id or by extension.
func (c *connection) function() (*function, error) {
	if c.frame.FunctionID != 0 {
		f := c.service.table.find(c.frame.FunctionID)
		if f == nil {
			return nil, refusedf(status.Unimplemented, "the server has no function with id %d; resolve its name again", c.frame.FunctionID)
		}
		return f, c.checkMandatory()
	}
	name, found := wire.FindExtension(c.frame.Extensions, wire.ExtensionFunctionName)
	if !found {
		return nil, refusedf(status.InvalidArgument, "the request has function id 0 and no name in extension 0x%04x", uint16(wire.ExtensionFunctionName))
	}
	f := c.service.table.byName[string(name)]
	if f == nil {
		return nil, noSuchFunction(string(name))
	}
	return f, c.checkMandatory()
}

func (c *connection) checkMandatory() error {
	if c.frame.ExtensionBytes == 0 {
		return nil
	}
	if t, found := wire.UnknownMandatory(c.frame.Extensions, wire.ExtensionFunctionName); found {
		return refusedf(status.Unimplemented, "the request has extension 0x%04x, which this server does not understand", uint16(t))
	}
	return nil
}

func noSuchFunction(name string) *status.Error {
	return refusedf(status.Unimplemented, "the server has no function %.255q; `nearcall list ADDRESS` shows what it has", name)
}

// otherDescription returns the error for arguments that would be read as other values
// than those their caller wrote.
func otherDescription(name string) *status.Error {
	return refusedf(status.Aborted, "the arguments were encoded by another description of %s than this server's: ask for its description again, then encode and send anew", name)
}

// expiry returns when the request expires on the server's clock, or 0 if it does not,
// and whether that moment has passed.
func (c *connection) expiry() (expiryNs uint64, passed bool) {
	if c.frame.Deadline == 0 {
		return 0, false
	}
	remaining := wire.DeadlineRemaining(c.frame.Deadline, c.nowNs/uint64(time.Millisecond), c.sharedClock)
	return c.nowNs + uint64(max(remaining, 0)), remaining < 0
}
