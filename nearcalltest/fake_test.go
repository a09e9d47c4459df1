package nearcalltest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/nearcalltest"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

type order struct {
	Number int64
	Items  []string
}

func functions() map[string]any {
	return map[string]any{
		"add":    func(a, b int64) int64 { return a + b },
		"divmod": func(a, b int64) (int64, int64) { return a / b, a % b },
		"order":  func(number int64) order { return order{number, []string{"tea"}} },
		"reset":  func() {},
		"upper":  func(data []byte) []byte { return append([]byte("upper "), data...) },
		"find":   func(key string) error { return status.Errorf(status.NotFound, "no %s", key) },
		"sum": func(numbers ...int64) (total int64) {
			for _, number := range numbers {
				total += number
			}
			return total
		},
		"wait": func(ctx context.Context) error { return ctx.Err() },
	}
}

func serving(s *server.Server) error {
	var failures []error
	for name, fn := range functions() {
		failures = append(failures, s.Register(name, fn))
	}
	return errors.Join(failures...)
}

// A program cannot tell a fake from a client: of each call the result, the code and the
// outcome are the same.
func TestFakeAnswersAsAServerDoes(t *testing.T) {
	callers := map[string]client.Caller{"fake": nearcalltest.Fake(functions())}
	real := nearcalltest.Client(t, serving)
	callers["client"], callers["view"] = real, real.With(client.Metadata("tenant", "acme"))
	for name, call := range map[string]func(ctx context.Context, c client.Caller) (any, error){
		"a result": func(ctx context.Context, c client.Caller) (any, error) {
			return client.Call[int64](ctx, c, "add", 3, 4)
		},
		"several results": func(ctx context.Context, c client.Caller) (any, error) {
			return client.Call[struct{ Q, R int64 }](ctx, c, "divmod", 17, 5)
		},
		"a struct": func(ctx context.Context, c client.Caller) (any, error) { return client.Call[order](ctx, c, "order", 5) },
		"no result": func(ctx context.Context, c client.Caller) (any, error) {
			return client.Call[client.None](ctx, c, "reset")
		},
		"Func0": func(ctx context.Context, c client.Caller) (any, error) {
			return client.Func0[client.None](c, "reset")(ctx)
		},
		"Func2": func(ctx context.Context, c client.Caller) (any, error) {
			return client.Func2[int64, int64, int64](c, "add")(ctx, 1, 2)
		},
		"Func2, several": func(ctx context.Context, c client.Caller) (any, error) {
			return client.Func2[int64, int64, struct{ Q, R int64 }](c, "divmod")(ctx, 17, 5)
		},
		"FuncN": func(ctx context.Context, c client.Caller) (any, error) {
			return client.FuncN[int64](c, "sum")(ctx, 1, 2, 3)
		},
		"dropped": func(ctx context.Context, c client.Caller) (any, error) { return nil, c.Call(ctx, "add", nil, 1, 2) },
		"raw": func(ctx context.Context, c client.Caller) (any, error) {
			return c.CallRaw(ctx, "upper", []byte("x"), []byte("before "))
		},
		"an error":    func(ctx context.Context, c client.Caller) (any, error) { return nil, c.Call(ctx, "find", nil, "blue") },
		"no function": func(ctx context.Context, c client.Caller) (any, error) { return nil, c.Call(ctx, "none", nil) },
		"a wrong argument": func(ctx context.Context, c client.Caller) (any, error) {
			return client.Call[int64](ctx, c, "add", "a", 4)
		},
		"too few arguments": func(ctx context.Context, c client.Caller) (any, error) { return client.Call[int64](ctx, c, "add", 1) },
		"a context that has ended": func(ctx context.Context, c client.Caller) (any, error) {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			return nil, c.Call(ended, "wait", nil)
		},
	} {
		want, wantErr := call(t.Context(), callers["client"])
		for who, caller := range callers {
			got, err := call(t.Context(), caller)
			if fmt.Sprint(got) != fmt.Sprint(want) || told(err) != told(wantErr) {
				t.Errorf("%s, %s: %v, %v; want %v, %v", name, who, got, err, want, wantErr)
			}
		}
	}
}

// told is what a program decides by.
func told(err error) string {
	if err == nil {
		return ""
	}
	failure := status.FromError(err)
	return failure.Code.String() + " " + failure.Outcome.String()
}

// An audited is a Caller of a program's own.
type audited struct {
	client.Caller
	names *[]string
}

func (a audited) Call(ctx context.Context, name string, result any, args ...any) error {
	*a.names = append(*a.names, name)
	return a.Caller.Call(ctx, name, result, args...)
}

// Typed functions call through whatever they are given.
func TestCallersOfOnesOwn(t *testing.T) {
	var names []string
	c := audited{nearcalltest.Client(t, register), &names}
	for _, call := range []func() (int64, error){
		func() (int64, error) { return client.Func2[int64, int64, int64](c, "add")(t.Context(), 3, 4) },
		func() (int64, error) { return client.FuncN[int64](c, "add")(t.Context(), 3, 4) },
		func() (int64, error) { return client.Call[int64](t.Context(), c, "add", 3, 4) },
	} {
		if sum, err := call(); sum != 7 || err != nil {
			t.Errorf("got %d, %v", sum, err)
		}
	}
	if len(names) != 3 {
		t.Errorf("the caller saw %v", names)
	}
}

func ExampleFake() {
	fake := nearcalltest.Fake{"add": func(a, b int64) int64 { return a + b }}
	total := func(ctx context.Context, c client.Caller) (int64, error) {
		return client.Call[int64](ctx, c, "add", 3, 4)
	}
	fmt.Println(total(context.Background(), fake))
	// Output: 7 <nil>
}
