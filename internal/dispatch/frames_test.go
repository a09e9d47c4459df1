package dispatch_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"testing"

	"github.com/nearcall/nearcall/internal/dispatch"
	"github.com/nearcall/nearcall/internal/wire"
)

// kept is everything that a function may keep of its arguments.
type kept struct {
	text   string
	list   []int64
	money  money
	at     *money
	byName map[string]int64
	rest   []string
}

// TestFunctionsMayKeepTheirArguments: what a function was given stays as it was, although
// later calls use the same frame.
func TestFunctionsMayKeepTheirArguments(t *testing.T) {
	var all []kept
	keep := func(text string, list []int64, m money, at *money, byName map[string]int64, rest ...string) int {
		all = append(all, kept{text, list, m, at, byName, rest})
		return len(all)
	}
	keepFew := func(_ context.Context, list []int64, at *money) *money {
		all = append(all, kept{list: list, at: at})
		return at
	}
	of := func(i int) kept {
		n, text := int64(i), fmt.Sprint("text ", i)
		return kept{text, []int64{n, n}, money{n, text}, &money{-n, text}, map[string]int64{text: n}, []string{text, text}}
	}
	f, few := make1(t, keep, dispatch.Options{}), make1(t, keepFew, dispatch.Options{})
	const calls = 200
	for i := range calls {
		k := of(i)
		for _, payload := range [][]byte{encode(t, []any{k.text, k.list, k.money, k.at, k.byName, k.rest[0], k.rest[1]}), encode(t, []any{k.list, k.at})} {
			called := f
			if payload[0] == 0x92 {
				called = few
			}
			if _, err := called.Call(context.Background(), wire.CodecMessagePack, payload, nil); err != nil {
				t.Fatal(err)
			}
			clear(payload) // as the next request overwrites it
		}
	}
	runtime.GC()
	for i := range calls {
		want := of(i)
		if got := all[2*i]; !reflect.DeepEqual(got, want) {
			t.Fatalf("call %d kept %+v, want %+v", i, got, want)
		}
		if got := all[2*i+1]; !reflect.DeepEqual(got, kept{list: want.list, at: want.at}) {
			t.Fatalf("call %d kept %+v", i, got)
		}
	}
}

// TestFramesOfCallsThatNeverReturned: a frame whose function panicked or ended its goroutine
// is not used again, and calls that run at the same time have frames of their own.
func TestFramesOfCallsThatNeverReturned(t *testing.T) {
	f := make1(t, func(m money, how int32, more ...int64) (money, int32, error) {
		switch how {
		case 1:
			panic("mine")
		case 2:
			runtime.Goexit()
		}
		if len(more) > 0 {
			m.Amount += more[0]
		}
		return m, how, nil
	}, dispatch.Options{})
	var group sync.WaitGroup
	for worker := range 4 {
		for i := range 200 {
			group.Go(func() {
				defer func() { recover() }()
				how := i % 4
				sent := money{int64(worker*1000 + i), fmt.Sprint("c", i)}
				args := []any{sent, how}
				if how == 3 {
					args, sent.Amount = append(args, 7), sent.Amount+7
				}
				out, err := f.Call(context.Background(), wire.CodecMessagePack, encode(t, args), nil)
				want := append([]byte{0x92}, append(encode(t, []any{sent})[1:], byte(how))...)
				if err != nil || string(out) != string(want) {
					t.Errorf("%v gave %x, %v, want %x", args, out, err, want)
				}
			})
		}
	}
	group.Wait()
}

// TestFunctionsThatCallThemselves use a frame for each call.
func TestFunctionsThatCallThemselves(t *testing.T) {
	var f *dispatch.Function
	f = make1(t, func(ctx context.Context, depth int32, m money) (int32, string, error) {
		if depth > 0 {
			if _, err := f.Call(ctx, wire.CodecMessagePack, encode(t, []any{depth - 1, money{}}), nil); err != nil {
				return 0, "", err
			}
		}
		return depth, m.Currency, nil
	}, dispatch.Options{})
	out, err := f.Call(context.Background(), wire.CodecMessagePack, encode(t, []any{9, money{1, "EUR"}}), nil)
	if err != nil || string(out) != "\x92\x09\xa3EUR" {
		t.Errorf("%q, %v", out, err)
	}
}
