package dispatch

import (
	"context"
	"reflect"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

// reflectAdapter calls any function, by reflection.
func reflectAdapter(fn reflect.Value) (Adapter, error) {
	signature, err := schema.SignatureOf(fn.Type())
	if err != nil {
		return Adapter{}, err
	}
	return Adapter{signature: signature, bind: func(of *schema.Function) (callFunc, error) {
		c := &reflectCall{of: of, fn: fn, signature: signature}
		if c.params, err = plansOf(signature.Params, codec.AliasBytes); err != nil {
			return nil, err
		}
		c.results, err = plansOf(signature.Results)
		return c.call, err
	}}, nil
}

func plansOf(types []reflect.Type, options ...codec.Option) ([]*codec.Plan, error) {
	plans := make([]*codec.Plan, len(types))
	for i, t := range types {
		var err error
		if plans[i], err = codec.NewPlan(t, options...); err != nil {
			return nil, err
		}
	}
	return plans, nil
}

type reflectCall struct {
	of              *schema.Function
	fn              reflect.Value
	signature       schema.GoSignature
	params, results []*codec.Plan
}

func (c *reflectCall) call(ctx context.Context, files *descriptors.Table, payload, dst []byte) ([]byte, error) {
	in, err := c.decode(ctx, files, payload)
	if err != nil {
		return dst, err
	}
	out := c.fn.Call(in)
	if c.signature.ReturnsError {
		last := len(out) - 1
		if err, failed := out[last].Interface().(error); failed {
			return dst, executed(err)
		}
		out = out[:last]
	}
	encoded, err := c.encode(files, dst, out)
	if err != nil {
		return encoded[:len(dst)], resultLost(c.of, err)
	}
	return encoded, nil
}

func (c *reflectCall) decode(ctx context.Context, files *descriptors.Table, payload []byte) ([]reflect.Value, error) {
	a := openArguments(c.of, files, payload)
	in := make([]reflect.Value, 0, len(c.params)+1)
	if c.signature.TakesContext {
		in = append(in, reflect.ValueOf(&ctx).Elem())
	}
	// The further arguments of a variadic function have the type of its last parameter.
	// Other arguments that are missing keep their zero values.
	fixed := len(c.params)
	if c.signature.Variadic {
		fixed--
	}
	for i := 0; a.err == nil && (i < fixed || i < a.count); i++ {
		at := min(i, len(c.params)-1)
		value := reflect.New(c.signature.Params[at]).Elem()
		if i < a.count {
			a.took(c.params[at].DecodeWith(files, a.rest, value))
		}
		in = append(in, value)
	}
	return in, a.close()
}

func (c *reflectCall) encode(files *descriptors.Table, dst []byte, out []reflect.Value) (_ []byte, err error) {
	switch len(out) {
	case 0:
		return msgp.AppendNil(dst), nil
	case 1:
		return c.results[0].AppendWith(files, dst, out[0])
	}
	dst = msgp.AppendArrayHeader(dst, uint32(len(out)))
	for i, result := range out {
		if dst, err = c.results[i].AppendWith(files, dst, result); err != nil {
			return dst, err
		}
	}
	return dst, nil
}
