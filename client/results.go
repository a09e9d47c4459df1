package client

import (
	"fmt"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/msgpack"
)

// Results2 to Results4 are result types for functions that return several results of
// different types. They work with Call and with Func0 to Func4:
//
//	divmod := client.Func2[int64, int64, client.Results2[int64, int64]](c, "divmod")
//	both, err := divmod(ctx, 17, 5) // both.A is 3, both.B is 2
type Results2[A, B any] struct {
	A A
	B B
}

// Results3 holds three results; see Results2.
type Results3[A, B, C any] struct {
	A A
	B B
	C C
}

// Results4 holds four results; see Results2.
type Results4[A, B, C, D any] struct {
	A A
	B B
	C C
	D D
}

// A decoder decodes one of several results of a reply into its place in R.
type decoder[R any] func(files *descriptors.Table, src []byte, all *R) (rest []byte, err error)

// several is implemented by result types that decode themselves.
type several[R any] interface {
	decoders() []decoder[R]
}

// decoderOf returns the decoder for a type of result.
func decoderOf[R any]() (decoder[R], error) {
	if parts, ok := any(new(R)).(several[R]); ok {
		return listDecoder(parts.decoders()), nil
	}
	values, err := codec.For[R](codec.IgnoreUnknownFields)
	if err != nil {
		return nil, err
	}
	return values.DecodeWith, nil
}

// part returns the decoder for the part of R that of points to.
func part[R, T any](of func(*R) *T) decoder[R] {
	decode, err := decoderOf[T]()
	return func(files *descriptors.Table, src []byte, all *R) ([]byte, error) {
		if err != nil {
			return src, err
		}
		return decode(files, src, of(all))
	}
}

func listDecoder[R any](parts []decoder[R]) decoder[R] {
	return func(files *descriptors.Table, src []byte, all *R) ([]byte, error) {
		count, rest, err := msgpack.ReadList(src, 0)
		if err == nil && count != len(parts) {
			err = fmt.Errorf("%d results came where %d are expected", count, len(parts))
		}
		for i := 0; i < len(parts) && err == nil; i++ {
			rest, err = parts[i](files, rest, all)
		}
		return rest, err
	}
}

func (*Results2[A, B]) decoders() []decoder[Results2[A, B]] {
	return []decoder[Results2[A, B]]{
		part(func(all *Results2[A, B]) *A { return &all.A }),
		part(func(all *Results2[A, B]) *B { return &all.B }),
	}
}

func (*Results3[A, B, C]) decoders() []decoder[Results3[A, B, C]] {
	return []decoder[Results3[A, B, C]]{
		part(func(all *Results3[A, B, C]) *A { return &all.A }),
		part(func(all *Results3[A, B, C]) *B { return &all.B }),
		part(func(all *Results3[A, B, C]) *C { return &all.C }),
	}
}

func (*Results4[A, B, C, D]) decoders() []decoder[Results4[A, B, C, D]] {
	return []decoder[Results4[A, B, C, D]]{
		part(func(all *Results4[A, B, C, D]) *A { return &all.A }),
		part(func(all *Results4[A, B, C, D]) *B { return &all.B }),
		part(func(all *Results4[A, B, C, D]) *C { return &all.C }),
		part(func(all *Results4[A, B, C, D]) *D { return &all.D }),
	}
}

// into is implemented by result types that decode themselves, so that Call can use
// them.
type into interface {
	decodeAll(files *descriptors.Table, src []byte) (rest []byte, err error)
}

func (all *Results2[A, B]) decodeAll(files *descriptors.Table, src []byte) ([]byte, error) {
	return listDecoder(all.decoders())(files, src, all)
}

func (all *Results3[A, B, C]) decodeAll(files *descriptors.Table, src []byte) ([]byte, error) {
	return listDecoder(all.decoders())(files, src, all)
}

func (all *Results4[A, B, C, D]) decodeAll(files *descriptors.Table, src []byte) ([]byte, error) {
	return listDecoder(all.decoders())(files, src, all)
}
