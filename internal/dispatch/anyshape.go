package dispatch

import (
	"context"
	"reflect"
	"sync"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/invoke"
	"github.com/nearcall/nearcall/internal/memory"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

// anyShapeAdapter calls functions of every signature.
func anyShapeAdapter(fn reflect.Value) (Adapter, error) {
	signature, err := schema.SignatureOf(fn.Type())
	if err != nil {
		return Adapter{}, err
	}
	return Adapter{signature: signature, bind: func(of *schema.Function, results codec.Option) (callFunc, error) {
		c := &anyShape{of: of, fn: invoke.New(fn), signature: signature}
		c.frames.New = func() any { return &shapeFrame{frame: c.fn.NewFrame()} }
		return c.call, c.plan(fn.Type(), results)
	}}, nil
}

// An anyShape is a function of any signature, with the plans of its types.
type anyShape struct {
	of        *schema.Function
	fn        *invoke.Function
	signature schema.GoSignature
	frames    sync.Pool // of *shapeFrame
	// params are the plans of all parameters except a context and, if the function is
	// variadic, the last, which rest decodes.
	params, results []*codec.Plan
	rest            *codec.Rest
}

type shapeFrame struct {
	arguments arguments
	frame     *invoke.Frame
}

func (c *anyShape) plan(t reflect.Type, results codec.Option) (err error) {
	params := c.signature.Params
	if c.signature.Variadic {
		last := len(params) - 1
		if c.rest, err = codec.NewRest(t.In(t.NumIn()-1), codec.AliasBytes); err != nil {
			return err
		}
		params = params[:last]
	}
	if c.params, err = plansOf(params, codec.AliasBytes); err != nil {
		return err
	}
	c.results, err = plansOf(c.signature.Results, results)
	return err
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

// call borrows a frame as invocation.call does.
func (c *anyShape) call(ctx context.Context, beside *codec.Beside, payload, dst []byte) ([]byte, error) {
	borrowed := c.frames.Get().(*shapeFrame)
	dst, err := c.callIn(ctx, borrowed, beside, payload, dst)
	borrowed.arguments = arguments{}
	borrowed.frame.Clear()
	c.frames.Put(borrowed)
	return dst, err
}

func (c *anyShape) callIn(ctx context.Context, in *shapeFrame, beside *codec.Beside, payload, dst []byte) ([]byte, error) {
	in.arguments.open(c.of, beside, payload)
	c.decode(ctx, &in.arguments, in.frame)
	if err := in.arguments.close(); err != nil {
		return dst, err
	}
	c.fn.Call(in.frame)
	if c.signature.ReturnsError {
		if err := *memory.As[error](c.fn.Result(in.frame, len(c.results))); err != nil {
			return dst, executed(err)
		}
	}
	encoded, err := c.encode(beside, dst, in.frame)
	if err != nil {
		return encoded[:len(dst)], resultLost(c.of, err)
	}
	return encoded, nil
}

// decode fills a frame. Arguments that are missing keep their zero values.
func (c *anyShape) decode(ctx context.Context, a *arguments, frame *invoke.Frame) {
	at := 0
	if c.signature.TakesContext {
		*memory.As[context.Context](c.fn.Param(frame, 0)) = ctx
		at = 1
	}
	for i, plan := range c.params {
		if a.err != nil || a.index >= a.count {
			break
		}
		a.took(plan.Fill(a.beside, a.rest, c.fn.Param(frame, at+i)))
	}
	if c.rest != nil && a.err == nil {
		a.tookAll(c.rest.Fill(a.beside, a.rest, c.fn.Param(frame, at+len(c.params)), a.count-a.index))
	}
}

func (c *anyShape) encode(beside *codec.Beside, dst []byte, frame *invoke.Frame) (_ []byte, err error) {
	switch len(c.results) {
	case 0:
		return msgp.AppendNil(dst), nil
	case 1:
		return c.results[0].AppendFrom(beside, dst, c.fn.Result(frame, 0))
	}
	dst = msgp.AppendArrayHeader(dst, uint32(len(c.results)))
	for i, plan := range c.results {
		if dst, err = plan.AppendFrom(beside, dst, c.fn.Result(frame, i)); err != nil {
			return dst, err
		}
	}
	return dst, nil
}
