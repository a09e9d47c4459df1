package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/nearcall/nearcall/forward"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/dispatch"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// RegisterForwarded makes a function callable that runs somewhere else. The description is JSON
// as client.Function.JSON returns it and as spec/schema.md describes it; name, parameters and
// documentation come from there. Each call is passed to pass, with the arguments as their caller
// has encoded them: see package forward. Callers see no difference, except for the time that the
// call takes.
//
//	f, err := c.Describe(ctx, "reserve")
//	err = s.RegisterForwarded(f.JSON(), c.Forward)
//
// A request that was encoded by another description is refused here. The outcome of an error
// that pass returns is told to the caller as it is. If pass panics, the outcome is unknown.
//
// A server to which calls are passed takes this one for the caller: its lists, its limits and
// its Peer are about this server. If not every caller of this server may call the function, give
// it a list (Identities) or an interceptor here.
//
// Of the options, MaxRunTime, MaxConcurrency, Intercept and Identities apply. It is an error to
// give others, because they describe the function or say how it runs. RegisterForwarded fails as
// Register does, and for functions that pass files or connections, which cannot be passed on.
// Serve returns the same error.
func (s *Server) RegisterForwarded(description []byte, pass forward.Func, options ...FunctionOption) error {
	made, err := s.newForwarded(description, pass, options)
	if err == nil {
		err = s.enter(made)
	}
	if err != nil {
		return s.fail(err)
	}
	return nil
}

// newForwarded makes the function that RegisterForwarded registers.
func (s *Server) newForwarded(description []byte, pass forward.Func, options []FunctionOption) (*function, error) {
	described, err := schema.ParseFunctionJSON(description)
	if err != nil {
		return nil, fmt.Errorf("nearcall: register a forwarded function: %w", err)
	}
	c, err := optionsOf(described.Name, options)
	switch {
	case err != nil:
		return nil, err
	case pass == nil:
		return nil, fmt.Errorf("nearcall: register %q: the function that passes calls on is nil", described.Name)
	case strings.HasPrefix(described.Name, reservedPrefix):
		return nil, reserved(described.Name)
	case described.UsesDescriptors():
		return nil, fmt.Errorf("nearcall: register %q: it takes or returns files or connections, which cannot be passed on", described.Name)
	case c.maxRunTime < 0 || c.maxConcurrency < 0:
		return nil, fmt.Errorf("nearcall: register %q: MaxRunTime and MaxConcurrency are 0 for no bound, and never negative", described.Name)
	case c.describes():
		return nil, fmt.Errorf("nearcall: register %q: Doc, Params, Idempotent, Borrow and Apart are for functions that run here; the description says the rest", described.Name)
	}
	made := dispatch.Described(described, dispatch.Options{MaxRunTime: c.maxRunTime, MaxConcurrency: c.maxConcurrency})
	f := s.describeFunction(made, c)
	f.forward = pass
	// It may wait, and what ends the call has to reach it.
	f.mayInline, f.needsContext = false, true
	return f, nil
}

// describes reports whether options were given that a description replaces.
func (c *functionConfig) describes() bool {
	return c.doc != "" || len(c.params) > 0 || c.idempotent || c.borrows || c.apart
}

// toForward returns what is passed on of the request in r.frame, except for the payload.
func (r *reader) toForward(f *function) *forward.Request {
	made := &forward.Request{Function: f.name, Codec: intercept.Codec(r.frame.Codec), Check: r.frame.Status}
	if r.frame.ExtensionBytes > 0 {
		made.Extensions = wire.AppendEndToEnd(nil, r.frame.Extensions)
	}
	return made
}

// toForward returns what is passed on of a request of the simple protocol, which has no extensions.
// The hash that its caller gave has been found to be that of f. It travels as the check, because the
// server that runs the function may have another one by now.
func (r *simpleRequest) toForward(f *function) *forward.Request {
	made := &forward.Request{Function: f.name, Codec: intercept.JSON}
	if r.hasDescription {
		made.Check = f.check
	}
	return made
}

// callForwarded passes the call on. Preconditions: e.called is set.
func (e *execution) callForwarded(ctx context.Context) error {
	request := e.forwarded
	request.Payload = e.payload
	reply, err := e.function.forward(ctx, request, e.scratch[:0])
	request.Payload = nil
	if len(reply.Extensions) > 0 {
		e.context.theCall().addForwarded(reply.Extensions)
	}
	if err == nil {
		if e.result = reply.Payload; cap(e.result) > cap(e.scratch) {
			e.keepScratch()
		}
		return nil
	}
	failure := *status.FromError(err)
	switch failure.Outcome {
	case status.OutcomeNone:
		failure.Outcome = status.OutcomeUnknown
	case status.OutcomeNotExecuted:
		e.called = false
	}
	return &failure
}

// addForwarded adds the metadata of an answer that came from elsewhere, as far as there is room
// beside those that were added here.
func (call *Call) addForwarded(extensions []byte) {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.answered {
		return
	}
	reply := wire.AppendEndToEnd(call.reply, extensions)
	if len(reply) <= wire.ExtensionBytesMax-call.reserved {
		call.reply = reply
	}
}

// outcome returns what is known of the function of a call for which something else has failed.
func (e *execution) outcome() status.Outcome {
	switch {
	case !e.called:
		return status.OutcomeNotExecuted
	case e.callError != nil:
		return status.FromError(e.callError).Outcome
	case e.function.forward != nil && !e.returned:
		return status.OutcomeUnknown // it may run elsewhere
	}
	return status.OutcomeExecuted
}
