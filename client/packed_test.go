package client_test

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

func numbersUpTo(count int) []float64 {
	numbers := make([]float64, count)
	for i := range numbers {
		numbers[i] = float64(i)
	}
	return numbers
}

// seenLists is a call as an interceptor saw it.
type seenLists struct {
	request, reply intercept.Codec
	argument       any
	result         any
}

// watching returns an option that notes each call, and where it is noted.
func watching(t *testing.T) (client.Option, *seenLists) {
	var noted seenLists
	return client.WithInterceptor(func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		err := next(ctx)
		noted = seenLists{request: call.Request().Codec(), reply: call.Reply().Codec()}
		if values, err := call.Request().Values(); err == nil && len(values) > 0 {
			noted.argument = values[0]
		} else {
			t.Errorf("arguments %v, %v", values, err)
		}
		if values, err := call.Reply().Values(); err == nil && len(values) > 0 {
			noted.result = values[0]
		}
		return err
	}), &noted
}

func TestPackedLists(t *testing.T) {
	option, noted := watching(t)
	c := demoClient(t, option)
	ctx, numbers := context.Background(), numbersUpTo(1000)
	want := numbersUpTo(1000)
	for i := range want {
		want[i] *= 2
	}
	scale := client.Func2[[]float64, float64, []float64](c, "scale")
	for name, call := range map[string]func() ([]float64, error){
		"typed":   func() ([]float64, error) { return scale(ctx, numbers, 2) },
		"dynamic": func() ([]float64, error) { return client.Call[[]float64](ctx, c, "scale", numbers, 2.0) },
	} {
		*noted = seenLists{}
		got, err := call()
		must(t, err)
		if !slices.Equal(got, want) || numbers[1] != 1 {
			t.Errorf("%s: another result", name)
		}
		asAny, _ := noted.result.([]any)
		if noted.request != intercept.Packed || noted.reply != intercept.Packed || len(asAny) != 1000 || asAny[999] != want[999] {
			t.Errorf("%s: interceptors saw %v and %v, and %d numbers", name, noted.request, noted.reply, len(asAny))
		}
	}
	columns, err := client.Func1[[][]float64, [][]float64](c, "transpose")(ctx, [][]float64{numbers, want})
	must(t, err)
	if len(columns) != 1000 || !reflect.DeepEqual(columns[999], []float64{999, 1998}) {
		t.Errorf("%d columns", len(columns))
	}
	flags, err := client.Func1[[]bool, []bool](c, "flip")(ctx, slices.Repeat([]bool{true, false}, 100))
	must(t, err)
	if !slices.Equal(flags, slices.Repeat([]bool{false, true}, 100)) {
		t.Error("other flags")
	}
}

// TestWhoNeverAsksForBlocks: calls whose values are MessagePack for somebody else, and calls
// without such lists.
func TestWhoNeverAsksForBlocks(t *testing.T) {
	option, noted := watching(t)
	c := demoClient(t, option)
	ctx := context.Background()
	arguments, err := codec.AppendValue([]byte{0x92}, numbersUpTo(1000))
	must(t, err)
	result, err := c.CallMessagePack(ctx, "scale", append(arguments, 1), nil)
	must(t, err)
	if msgpack.IsPacked(result) || noted.request != intercept.MessagePack {
		t.Errorf("CallMessagePack: %v, a block: %v", noted.request, msgpack.IsPacked(result))
	}
	_, err = client.Func2[int64, int64, int64](c, "ack")(ctx, 0, 1)
	must(t, err)
	if noted.request != intercept.MessagePack {
		t.Errorf("a call of two integers is %v", noted.request)
	}
}

// TestListsForAny: a list is a block if it is the argument itself, because its Go type says what
// its elements are. Lists inside an any are arrays.
func TestListsForAny(t *testing.T) {
	option, noted := watching(t)
	c := demoClient(t, option)
	ctx, numbers := context.Background(), numbersUpTo(100)
	call := func(argument any) func() (any, error) {
		return func() (any, error) { return client.Call[any](ctx, c, "identity", argument) }
	}
	typed := client.Func1[any, any](c, "identity")
	for name, check := range map[string]struct {
		call func() (any, error)
		want intercept.Codec
	}{
		"the argument":             {call(numbers), intercept.Packed},
		"inside a list":            {call([]any{numbers}), intercept.MessagePack},
		"inside a map":             {call(map[string]any{"numbers": numbers}), intercept.MessagePack},
		"a parameter of type any":  {func() (any, error) { return typed(ctx, numbers) }, intercept.MessagePack},
		"inside of such parameter": {func() (any, error) { return typed(ctx, []any{numbers}) }, intercept.MessagePack},
	} {
		*noted = seenLists{}
		got, err := check.call()
		must(t, err)
		if noted.request != check.want || !reflect.DeepEqual(got, noted.argument) {
			t.Errorf("%s: the request is %v, want %v; the result is what was sent: %v", name, noted.request, check.want, reflect.DeepEqual(got, noted.argument))
		}
	}
}

// TestABlockForAServerThatTakesNone: the request is written anew, and so is one that is sent
// again because the server was replaced. Of many numbers the request had not been copied.
func TestABlockForAServerThatTakesNone(t *testing.T) {
	for _, count := range []int{100, 10_000} {
		t.Run(strconv.Itoa(count), func(t *testing.T) { sendTwice(t, count) })
	}
}

func sendTwice(t *testing.T, count int) {
	p := describingPeer(t)
	p.welcome.Accepted |= wire.FeaturePackedLists
	c, f := p.client(), describe(t, "scale", func([]float64, float64) []float64 { return nil }, "numbers", "factor")
	scale := client.Func2[[]float64, float64, []float64](c, "scale")
	done := make(chan error, 1)
	var got []float64
	go func() {
		result, err := scale(context.Background(), numbersUpTo(count), 1)
		got = result
		done <- err
	}()
	conn := p.serveDescribing()
	conn.answer(f)
	first := conn.expectCheck(f)
	if first.Codec != wire.CodecPacked || !msgpack.IsPacked(first.Payload[1:]) {
		t.Fatalf("a request in %v, % X", first.Codec, first.Payload[:16])
	}
	p.welcome.Accepted &^= wire.FeaturePackedLists
	conn.fail(first, status.Unavailable, status.OutcomeNotExecuted)
	conn.end()
	conn = p.serveDescribing()
	second := conn.expect(wire.Request)
	list, _, err := msgpack.ReadAny(second.Payload[1:], 0)
	if second.Codec != wire.CodecMessagePack || msgpack.IsPacked(second.Payload[1:]) || err != nil || len(list.([]any)) != count {
		t.Fatalf("a request in %v, %v", second.Codec, err)
	}
	reply := replyTo(second, []byte{0x91, 0x07})
	conn.send(reply)
	must(t, <-done)
	if !slices.Equal(got, []float64{7}) {
		t.Errorf("got %v", got)
	}
}
