package dispatch

import (
	"errors"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/status"
	"github.com/tinylib/msgp/msgp"
)

// arguments reads the array of a request. The first error ends the reading and
// is kept for close.
type arguments struct {
	of     *schema.Function
	beside *codec.Beside
	rest   []byte
	count  int
	index  int
	err    error
}

// open begins to read the arguments of a function.
func (a *arguments) open(of *schema.Function, beside *codec.Beside, payload []byte) {
	a.of, a.beside = of, beside
	if msgp.IsNil(payload) {
		a.err = refused("%s: nil came where the array of arguments is expected", of.Name)
		return
	}
	// The array is not part of any value, so it adds no depth.
	count, rest, err := msgpack.ReadList(payload, 0)
	if err != nil {
		a.err = refused("%s: array of arguments: %w", of.Name, err)
		return
	}
	if err := of.CheckArgumentCount(count); err != nil {
		a.err = refused("%w", err)
		return
	}
	a.rest, a.count = rest, count
}

// next decodes the next argument into a value that is zero. An argument that is missing is
// optional, and leaves it so.
func next[T any](a *arguments, by *codec.Codec[T], value *T) {
	if a.err != nil || a.index >= a.count {
		return
	}
	rest, err := by.Fill(a.beside, a.rest, value)
	a.took(rest, err)
}

func (a *arguments) took(rest []byte, err error) {
	if err != nil {
		a.fail(err)
	}
	a.rest = rest
	a.index++
}

// tookAll is took for all arguments that were left. If one of them could not be decoded, it
// was the one with number failed among them.
func (a *arguments) tookAll(rest []byte, failed int, err error) {
	if err != nil {
		a.index += failed
		a.fail(err)
	}
	a.rest = rest
}

func (a *arguments) fail(err error) {
	a.err = unfit(a.of, codec.AtArgument(a.of, a.index, err))
}

// unfit returns the error of a call whose arguments could not be decoded.
func unfit(of *schema.Function, err error) *status.Error {
	failed := refused("%s: %w", of.Name, err)
	if own := (*status.Error)(nil); errors.As(err, &own) {
		failed.Code = own.Code // of whoever has no room for them
	}
	return failed
}

// close returns why the function cannot be called, or nil. If it can be called, it owns
// what its arguments hold from now on.
func (a *arguments) close() error {
	if a.err != nil {
		return a.err
	}
	if len(a.rest) > 0 {
		return refused("%s: %d bytes follow the array of arguments", a.of.Name, len(a.rest))
	}
	if a.beside != nil {
		a.beside.Release()
	}
	return nil
}
