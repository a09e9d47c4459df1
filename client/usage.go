package client

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A usage is how the program uses a function: by Go types of its own, or with arguments
// that were encoded by a description. It is compared with the description that the
// server has, before anything is sent, once for each schema.
type usage struct {
	types usageTypes
	// encodedBy is set if the arguments come encoded.
	encodedBy *schema.Function
	// stub is set if the types were generated.
	stub *stub

	// bound is the function that the usage was last found to fit.
	bound atomic.Pointer[describedFunction]
}

// usageTypes are the types of the arguments and of the place for the result, which is
// nil if the result is dropped.
type usageTypes struct {
	arguments []reflect.Type
	result    reflect.Type
}

func (t usageTypes) equal(other usageTypes) bool {
	return t.result == other.result && slices.Equal(t.arguments, other.arguments)
}

// fittingMax bounds how many usages are remembered for a function. A program that has
// more compares those that were forgotten again.
const fittingMax = 16

// fits reports whether the usage is already known to fit.
func (f *describedFunction) fits(u *usage) bool {
	if u.encodedBy != nil {
		return u.encodedBy.Hash == f.Hash
	}
	if u.stub != nil {
		return u.stub.hash() == f.Hash
	}
	known := f.fitting.Load()
	return known != nil && slices.ContainsFunc(*known, u.types.equal)
}

// compare returns an error that says what does not fit, or remembers that the usage
// fits.
func (c *core) compare(f *describedFunction, u *usage) *status.Error {
	switch {
	case f.fits(u):
		return nil
	case u.encodedBy != nil:
		return outdatedDescription(f.Name)
	case u.stub != nil:
		return c.compareStub(f, u.stub)
	}
	err := f.FitArguments(u.types.arguments)
	if err == nil && u.types.result != nil {
		err = f.fitResult(u.types.result)
	}
	if err != nil {
		return notExecuted(status.InvalidArgument, "%s: %w; `nearcall describe` shows the function", f.Name, err)
	}
	f.remember(usageTypes{slices.Clone(u.types.arguments), u.types.result})
	return nil
}

// remember adds a usage to those that fit. If another goroutine does so at the same
// time one of the two is lost, and will be compared again.
func (f *describedFunction) remember(fitting usageTypes) {
	var all []usageTypes
	if known := f.fitting.Load(); known != nil {
		all = (*known)[max(0, len(*known)+1-fittingMax):]
	}
	all = append(slices.Clone(all), fitting)
	f.fitting.Store(&all)
}

// fitResult checks the type of the place for the result. Several results fit a list, or the
// fields of a struct. No result fits anything that can be nil.
func (f *describedFunction) fitResult(t reflect.Type) error {
	switch {
	case len(f.Results) > 1 && t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]():
		return f.fitFields(t)
	case len(f.Results) > 1 && t == reflect.TypeFor[any]():
		return f.FitResults(slices.Repeat([]reflect.Type{t}, len(f.Results)))
	case len(f.Results) > 1 && t.Kind() == reflect.Slice:
		return f.FitResults(slices.Repeat([]reflect.Type{t.Elem()}, len(f.Results)))
	}
	err := f.FitResults([]reflect.Type{t})
	if err != nil && len(f.Results) == 0 {
		err = fmt.Errorf("%w: take client.None", err)
	}
	return err
}

// fitFields checks the struct whose fields are the places for several results.
func (f *describedFunction) fitFields(t reflect.Type) error {
	fields, err := schema.GoFields(t)
	if err != nil {
		return err
	}
	types := make([]reflect.Type, len(fields))
	for i, field := range fields {
		types[i] = field.Type
	}
	return f.FitResults(types)
}

func outdatedDescription(name string) *status.Error {
	return notExecuted(status.Aborted, "the arguments were encoded by another description of %s than this server's: describe it again, then encode and send anew", name)
}

// bind finds the function that the call uses, and compares the two unless that was done
// before. usable is as for exchange.
func (c *connection) bind(ctx context.Context, r *call) (failure *status.Error, usable bool) {
	if bound := r.usage.bound.Load(); bound != nil && bound.table == c.functions {
		r.function = bound
		return nil, true
	}
	r.function = nil
	f := c.functions.findDescribed(r.name)
	// The description may be that of a server that has gone, which does not show before
	// something is sent.
	if f == nil || c.client.compare(f, r.usage) != nil {
		if f, failure, usable = c.describe(ctx, r); f == nil {
			return failure, usable
		}
		if failure = c.client.compare(f, r.usage); failure != nil {
			return failure, true
		}
	}
	if r.refusal != nil && r.refusedHash == f.Hash && r.refusedSchema == c.functions.hash {
		return r.refusal, true
	}
	if r.usage.encodedBy == nil {
		r.usage.bound.Store(f)
	}
	r.function = f
	return nil, true
}

// checkIdempotent refuses to repeat a function that must not run twice, before it runs
// once.
func (c *connection) checkIdempotent(ctx context.Context, r *call) (failure *status.Error, usable bool) {
	f := r.function
	if f == nil {
		f = c.functions.findDescribed(r.name)
	}
	if f == nil {
		if f, failure, usable = c.describe(ctx, r); f == nil {
			return failure, usable
		}
	}
	if !f.Idempotent {
		return notExecuted(status.FailedPrecondition, "%s is not registered as idempotent (server.Idempotent), so it is not called with client.RetryUnknown", r.name), true
	}
	return nil, true
}

// describe asks for the function's description, on this connection: on another
// there may be another server. What fails was not the call.
func (c *connection) describe(ctx context.Context, r *call) (f *describedFunction, failure *status.Error, usable bool) {
	if err := schema.CheckFunctionName(r.name); err != nil {
		return nil, notExecuted(status.InvalidArgument, "%w", err), true
	}
	question := c.client.take()
	defer c.client.give(question)
	question.frameType, question.codec, question.name, question.payload = wire.Resolve, wire.CodecRaw, r.name, []byte(r.name)
	question.startNs, question.deadlineNs = r.startNs, r.deadlineNs
	if failure, usable = c.exchange(ctx, question); failure != nil {
		return nil, failure.With(status.OutcomeNotExecuted), usable
	}
	if !usable {
		return nil, nil, false
	}
	description, failure := readDescription(question)
	if failure != nil {
		return nil, failure, true
	}
	return c.functions.describe(description, question.functionID), nil, true
}

// readDescription reads the answer to describe.
func readDescription(r *call) (*schema.Function, *status.Error) {
	f, rest, err := schema.ParseFunction(r.reply)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow it", len(rest))
	}
	if err != nil {
		return nil, notExecuted(status.Internal, "the server's description of %s cannot be read: %w", r.name, err)
	}
	return f, nil
}

// outdated reports whether the server refused the call because its function has another
// description. The description is then forgotten. If the server answers with the same
// one again, the refusal stands.
func (r *call) outdated(failure *status.Error) bool {
	if r.function == nil || r.header.Status == 0 || failure.Code != status.Aborted || failure.Outcome != status.OutcomeNotExecuted {
		return false
	}
	r.function.table.forget(r.function)
	r.usage.bound.CompareAndSwap(r.function, nil)
	r.refusal, r.refusedHash, r.refusedSchema, r.function = failure, r.function.Hash, r.function.table.hash, nil
	return r.usage.encodedBy == nil
}
