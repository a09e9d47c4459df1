package client

import "context"

// A Caller makes calls. A Client is one, and so is each view of it. Whatever takes a Caller
// can also be given something else: a fake in a test (nearcalltest.Fake is one), or a type
// of the program's own that stands in front of a Client. Call, Func0 to Func4, FuncN and the
// code that `nearcall gen go` writes take one.
//
// A Caller must be safe for any number of goroutines. An error that it returns should be a
// *status.Error. No methods will be added: other ways to call get interfaces of their own.
type Caller interface {
	// Call calls a function and stores its result in what result points to. If result is
	// nil, the result is dropped. See Client.Call.
	Call(ctx context.Context, name string, result any, args ...any) error
	// CallRaw calls a function that takes and returns bytes, and appends the reply to dst.
	// See Client.CallRaw.
	CallRaw(ctx context.Context, name string, payload, dst []byte) ([]byte, error)
}

var _ Caller = (*Client)(nil)

// Call calls a function with arguments of any supported types and returns its result. A
// function with several results returns them in the fields of a struct, in their order: R
// is then a struct with as many exported fields as the function has results. It may also be
// a slice of their type, or []any. For a function without a result, R is None, struct{} or
// any.
//
// For a function that is called often, Func0 to Func4 are better: they cost no
// allocation.
func Call[R any](ctx context.Context, c Caller, name string, args ...any) (result R, err error) {
	err = c.Call(ctx, name, &result, args...)
	return result, err
}
