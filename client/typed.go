package client

import (
	"context"
	"reflect"
	"sync"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// None is the result type of functions without a result. Any struct type without fields
// will do as well. With it, the result of a function that has one is dropped.
type None struct{}

// resultOptions are those by which results are decoded.
const resultOptions = codec.IgnoreUnknownFields | codec.ListFillsFields | codec.WidenLists

// isNone reports whether the program wants no result.
func isNone(result reflect.Type) bool {
	return result.Kind() == reflect.Struct && result.NumField() == 0
}

// Func0 to Func4 return a Go function that calls a function with that many parameters:
//
//	ack := client.Func2[int64, int64, int64](c, "ack")
//	sum, err := ack(ctx, 3, 4)
//
// Arguments and results of basic types (bool, numbers, time.Time, time.Duration) are
// encoded without reflection and cost no allocation; a result that is a string or
// []byte costs one. The returned function may be used by any number of goroutines.
//
// The types are compared with the description of the server's function at the first
// call, and again whenever the server's schema has changed. If they differ, or if a
// type cannot be sent at all, every call fails with INVALID_ARGUMENT before anything is
// sent.
//
// A Caller that is no Client is given the arguments as they are, and options have no effect
// on it.
func Func0[R any](c Caller, name string, options ...FuncOption) func(context.Context) (R, error) {
	m := newMethod[struct{}, R](c, name, options)
	return func(ctx context.Context) (R, error) { return m.call(ctx, struct{}{}) }
}

// Func1 is Func0 for a function with one parameter.
func Func1[A, R any](c Caller, name string, options ...FuncOption) func(context.Context, A) (R, error) {
	type arguments struct {
		a A
	}
	m := newMethod[arguments, R](c, name, options,
		parameter(func(all *arguments) *A { return &all.a }))
	return func(ctx context.Context, a A) (R, error) { return m.call(ctx, arguments{a}) }
}

// Func2 is Func0 for a function with two parameters.
func Func2[A, B, R any](c Caller, name string, options ...FuncOption) func(context.Context, A, B) (R, error) {
	type arguments struct {
		a A
		b B
	}
	m := newMethod[arguments, R](c, name, options,
		parameter(func(all *arguments) *A { return &all.a }),
		parameter(func(all *arguments) *B { return &all.b }))
	return func(ctx context.Context, a A, b B) (R, error) { return m.call(ctx, arguments{a, b}) }
}

// Func3 is Func0 for a function with three parameters.
func Func3[A, B, C, R any](c Caller, name string, options ...FuncOption) func(context.Context, A, B, C) (R, error) {
	type arguments struct {
		a A
		b B
		c C
	}
	m := newMethod[arguments, R](c, name, options,
		parameter(func(all *arguments) *A { return &all.a }),
		parameter(func(all *arguments) *B { return &all.b }),
		parameter(func(all *arguments) *C { return &all.c }))
	return func(ctx context.Context, a A, b B, c C) (R, error) { return m.call(ctx, arguments{a, b, c}) }
}

// Func4 is Func0 for a function with four parameters.
func Func4[A, B, C, D, R any](c Caller, name string, options ...FuncOption) func(context.Context, A, B, C, D) (R, error) {
	type arguments struct {
		a A
		b B
		c C
		d D
	}
	m := newMethod[arguments, R](c, name, options,
		parameter(func(all *arguments) *A { return &all.a }),
		parameter(func(all *arguments) *B { return &all.b }),
		parameter(func(all *arguments) *C { return &all.c }),
		parameter(func(all *arguments) *D { return &all.d }))
	return func(ctx context.Context, a A, b B, c C, d D) (R, error) { return m.call(ctx, arguments{a, b, c, d}) }
}

// FuncN is Func0 for a function with any number of parameters, or with variadic ones.
// The function that it returns takes its arguments as Call does.
func FuncN[R any](c Caller, name string, options ...FuncOption) func(ctx context.Context, args ...any) (R, error) {
	direct, ours := c.(*Client)
	if !ours {
		return func(ctx context.Context, args ...any) (R, error) { return Call[R](ctx, c, name, args...) }
	}
	var fixed *usage
	if len(options) > 0 {
		fixed = new(usage)
	}
	for _, option := range options {
		option(fixed)
	}
	return func(ctx context.Context, args ...any) (result R, err error) {
		err = direct.call(ctx, name, fixed, &result, args)
		return result, err
	}
}

// A param is one of the arguments in a struct that holds all of them.
type param[Arguments any] struct {
	of     reflect.Type
	append func(beside *codec.Beside, dst []byte, all *Arguments) ([]byte, error)
	value  func(all *Arguments) any
	packs  bool
}

// parameter returns the parameter whose argument of points to.
func parameter[Arguments, T any](of func(*Arguments) *T) param[Arguments] {
	values, err := codec.For[T](codec.PackLists)
	value := func(all *Arguments) any { return *of(all) }
	return param[Arguments]{of: reflect.TypeFor[T](), value: value, packs: err == nil && values.Packs(), append: func(beside *codec.Beside, dst []byte, all *Arguments) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		return values.AppendWith(beside, dst, of(all))
	}}
}

// A method is a function of the server together with the types that the program uses.
type method[Arguments, R any] struct {
	client  *Client
	foreign Caller // in place of client, for a Caller that is none
	name    string
	usage   usage
	params  []param[Arguments]
	result  *codec.Codec[R] // nil if no result is wanted
	codec   wire.Codec
	err     error
	values  sync.Pool // *values[Arguments, R]
}

// values are the arguments and the result of one call. They are reused, because the
// codec needs pointers to them, so they lie on the heap.
type values[Arguments, R any] struct {
	arguments Arguments
	result    R
}

func newMethod[Arguments, R any](c Caller, name string, options []FuncOption, params ...param[Arguments]) *method[Arguments, R] {
	m := &method[Arguments, R]{name: name, params: params, codec: wire.CodecMessagePack}
	if direct, ours := c.(*Client); ours {
		m.client = direct
	} else {
		m.foreign = c
	}
	for _, param := range params {
		m.usage.types.arguments = append(m.usage.types.arguments, param.of)
		m.packs(param.packs)
	}
	if result := reflect.TypeFor[R](); !isNone(result) {
		m.result, m.err = codec.For[R](resultOptions)
		m.usage.types.result = result
		m.packs(m.err == nil && m.result.Packs())
	}
	for _, option := range options {
		option(&m.usage)
	}
	m.values.New = func() any { return new(values[Arguments, R]) }
	return m
}

// packs notes whether an argument or the result may be a list that travels as a block.
func (m *method[Arguments, R]) packs(yes bool) {
	if yes {
		m.codec = wire.CodecPacked
	}
}

func (m *method[Arguments, R]) call(ctx context.Context, arguments Arguments) (R, error) {
	if m.foreign != nil {
		return m.callForeign(ctx, arguments)
	}
	v := m.values.Get().(*values[Arguments, R])
	v.arguments = arguments
	failure := m.exchange(ctx, v)
	var result R
	if failure == nil {
		result = v.result
	}
	*v = values[Arguments, R]{}
	m.values.Put(v)
	return result, asError(failure)
}

// encode appends the arguments.
func (m *method[Arguments, R]) encode(r *call, v *values[Arguments, R]) *status.Error {
	r.request = msgpack.AppendListHeader(r.request[:0], len(m.params))
	for i, param := range m.params {
		request, err := param.append(&r.beside, r.request, &v.arguments)
		if err != nil {
			return badArgument(i, err)
		}
		r.request = request
	}
	return nil
}

// callForeign calls through a Caller that is no Client.
func (m *method[Arguments, R]) callForeign(ctx context.Context, arguments Arguments) (R, error) {
	args := make([]any, len(m.params))
	for i, param := range m.params {
		args[i] = param.value(&arguments)
	}
	return Call[R](ctx, m.foreign, m.name, args...)
}

func (m *method[Arguments, R]) exchange(ctx context.Context, v *values[Arguments, R]) *status.Error {
	if m.err != nil {
		return notExecuted(status.InvalidArgument, "result of %s: %w", m.name, m.err)
	}
	r := m.client.take()
	defer m.client.core.give(r)
	r.usage = &m.usage
	r.gather()
	failure := m.encode(r, v)
	if failure != nil && m.client.core.takesMore(ctx, r, failure) {
		failure = m.encode(r, v)
	}
	if failure != nil {
		return failure
	}
	if failure := m.client.core.exchange(ctx, r, wire.Request, m.codec, m.name, r.request); failure != nil {
		return failure
	}
	if m.result == nil {
		return nil
	}
	if failure := checkDecoded(m.result.DecodeWith(r.keepReply(), r.reply, &v.result)); failure != nil {
		return failure
	}
	r.files.Release()
	return nil
}
