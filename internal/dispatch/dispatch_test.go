package dispatch_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/dispatch"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

type point struct{ X, Y float64 }

type contextKey struct{}

func make1(t testing.TB, fn any, options dispatch.Options) *dispatch.Function {
	t.Helper()
	f, err := dispatch.NewFunction("f", fn, options)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// call runs fn over MessagePack and over JSON and compares what both give.
func call(t *testing.T, fn any, args ...any) (any, error) {
	t.Helper()
	f := make1(t, fn, dispatch.Options{})
	ctx := context.WithValue(context.Background(), contextKey{}, "from the context")
	out, err := f.Call(ctx, wire.CodecMessagePack, encode(t, args), []byte("kept"))
	if !bytes.HasPrefix(out, []byte("kept")) || err != nil && len(out) != 4 {
		t.Fatalf("%T: the destination became %q", fn, out)
	}
	text, errJSON := json.Marshal(args)
	if args == nil {
		text = []byte("[]")
	}
	if errJSON != nil {
		t.Fatal(errJSON)
	}
	asJSON, errJSON := f.Call(ctx, wire.CodecJSON, text, []byte("kept"))
	if err != nil || errJSON != nil {
		if err == nil || errJSON == nil || status.FromError(err).Outcome != status.FromError(errJSON).Outcome {
			t.Errorf("%T: MessagePack gave %v, JSON %v", fn, err, errJSON)
		}
		return nil, err
	}
	if !json.Valid(asJSON[4:]) {
		t.Errorf("%T: the result in JSON is %q", fn, asJSON)
	}
	got, rest, err := msgpack.ReadAny(out[4:], 0)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%T: the result is %x: %v", fn, out[4:], err)
	}
	return got, nil
}

func TestEveryShapeOfFunction(t *testing.T) {
	three := int64(3)
	for _, test := range []struct {
		fn   any
		args []any
		want any
	}{
		// Recognised signatures.
		{func() int64 { return 5 }, nil, int64(5)},
		{func() (string, error) { return "s", nil }, nil, "s"},
		{func(context.Context) bool { return true }, nil, true},
		{func(ctx context.Context) (string, error) { return ctx.Value(contextKey{}).(string), nil }, nil, "from the context"},
		{func(s string) string { return s + s }, []any{"a"}, "aa"},
		{func(s string) (string, error) { return s, nil }, []any{""}, ""},
		{func(ctx context.Context, s string) string { return s + ctx.Value(contextKey{}).(string) }, []any{"x "}, "x from the context"},
		{func(_ context.Context, a int64) (int64, error) { return -a, nil }, []any{1}, int64(-1)},
		{func(a, b float64) float64 { return a / b }, []any{1, 4}, 0.25},
		{func(a, b int64) (int64, error) { return a - b, nil }, []any{1, 4}, int64(-3)},
		{func(_ context.Context, a, b string) string { return b + a }, []any{"a", "b"}, "ba"},
		{func(_ context.Context, a, b uint64) (uint64, error) { return a * b, nil }, []any{2, 3}, int64(6)},
		{func(a, b, c int64) int64 { return a + b + c }, []any{1, 2, 3}, int64(6)},
		{func(a, b, c string) (string, error) { return a + b + c, nil }, []any{"1", "2", "3"}, "123"},
		{func(_ context.Context, a, b, c int64) (int64, error) { return a + b + c, nil }, []any{1, 2, 3}, int64(6)},
		{func() error { return nil }, nil, nil},
		{func(context.Context) error { return nil }, nil, nil},
		{func(string) error { return nil }, []any{"a"}, nil},
		{func(context.Context, string) error { return nil }, []any{"a"}, nil},
		{func(int64, string) error { return nil }, []any{1, "a"}, nil},
		{func(context.Context, string, string) error { return nil }, []any{"", "a"}, nil},
		// All others, by reflection.
		{func() {}, nil, nil},
		{func(int) {}, []any{1}, nil},
		{func(context.Context) {}, nil, nil},
		{func(a point, b *point) point { return point{a.X + b.X, a.Y + b.Y} }, []any{point{1, 2}, point{3, 4}}, map[string]any{"X": 4.0, "Y": 6.0}},
		{func(a, b int64) (int64, int64, error) { return a / b, a % b, nil }, []any{7, 2}, []any{int64(3), int64(1)}},
		{func(numbers ...int64) int64 { return int64(len(numbers)) }, nil, int64(0)},
		{func(numbers ...int64) int64 { return numbers[0] + numbers[2] }, []any{1, 2, 3}, int64(4)},
		{func(ctx context.Context, a string, rest ...point) int { return len(rest) }, []any{"", point{}, point{}}, int64(2)},
		{func(a int64, b *int64) bool { return b == nil }, []any{1}, true},
		{func(a int64, b *int64) int64 { return a + *b }, []any{1, 2}, int64(3)},
		{func(a *int64, b *int64) int64 { return *b }, []any{nil, &three}, int64(3)},
		{func(value any) any { return value }, []any{map[string]any{"a": []any{"b", true, nil, int64(-5)}}}, map[string]any{"a": []any{"b", true, nil, int64(-5)}}},
		{func() any { return []point{{1, 2}} }, nil, []any{map[string]any{"X": 1.0, "Y": 2.0}}},
		{func() (any, *int) { return nil, nil }, nil, []any{nil, nil}},
		{func(raw json.RawMessage) int { return len(raw) }, []any{[]byte("abc")}, int64(3)},
		{func(m map[int8][]string) []string { return m[-1] }, []any{map[int8][]string{-1: {"a"}}}, []any{"a"}},
		{func(t time.Time, d time.Duration) time.Time { return t.Add(d) }, []any{time.Unix(5, 0).UTC(), time.Second}, time.Unix(6, 0).UTC()},
		// Adapters.
		{dispatch.Func0(func(context.Context) (dispatch.None, error) { return dispatch.None{}, nil }), nil, nil},
		{dispatch.Func1(func(_ context.Context, p point) (point, error) { return p, nil }), []any{point{1, 2}}, map[string]any{"X": 1.0, "Y": 2.0}},
		{dispatch.Func2(func(_ context.Context, a string, b *int64) (bool, error) { return b == nil, nil }), []any{"a"}, true},
		{dispatch.Func3(func(_ context.Context, a int8, b []string, c any) (any, error) { return c, nil }), []any{1, []string{"x"}, "c"}, "c"},
		{dispatch.Func4(func(_ context.Context, a, b, c, d uint16) (uint16, error) { return a + b + c + d, nil }), []any{1, 2, 3, 4}, int64(10)},
	} {
		got, err := call(t, test.fn, test.args...)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%T: %#v, %v, want %#v", test.fn, got, err, test.want)
		}
	}
}

func TestRefusedCallsSayWhy(t *testing.T) {
	ack := func(context.Context, int64, int8) (int64, error) { panic("the function must not run") }
	variadic := func(string, ...int8) { panic("the function must not run") }
	for _, fn := range []any{ack, dispatch.Func2(ack), variadic} {
		f, err := dispatch.NewFunction("ack", fn, dispatch.Options{ParamNames: []string{"m", "n"}})
		if err != nil {
			t.Fatal(err)
		}
		first := "01"
		if f.Description().Variadic {
			first = "a0"
		}
		for _, test := range []struct{ payload, want string }{
			{"", "ack: array of arguments: the data ends within a value"},
			{"c0", "ack: nil came where the array of arguments is expected"},
			{"01", "ack: array of arguments: integer came where list is expected"},
			{"80", "ack: array of arguments: map came where list is expected"},
			{"ddffffffff", "the data ends within a value"},
			{"90", "0 came, and argument 1 (m) is missing"},
			{"92" + first + "cd012c", "ack: argument 2 (n): 300 does not fit int8"},
			{"92" + first + "a161", "ack: argument 2 (n): string came where int8 is expected"},
			{"92c101", "ack: argument 1 (m): byte 0xC1"},
			{"92" + first, "the data ends within a value"},
			{"92" + first + "01ff", "ack: 1 bytes follow the array of arguments"},
		} {
			payload, _ := hex.DecodeString(test.payload)
			_, err := f.Call(context.Background(), wire.CodecMessagePack, payload, nil)
			checkRefused(t, err, status.InvalidArgument, test.want)
		}
	}
}

func checkRefused(t *testing.T, err error, code status.Code, want string) {
	t.Helper()
	var failure *status.Error
	if !errors.As(err, &failure) || failure.Outcome != status.OutcomeNotExecuted || failure.Code != code || !strings.Contains(failure.Message, want) {
		t.Errorf("%v, want %v, not executed: %s", err, code, want)
	}
}

func TestTooManyArguments(t *testing.T) {
	for _, fn := range []any{func(int64) int64 { return 0 }, func(int64, *int64) {}, func() {}} {
		f := make1(t, fn, dispatch.Options{})
		payload := encode(t, []any{1, 2, 3})
		_, err := f.Call(context.Background(), wire.CodecMessagePack, payload, nil)
		checkRefused(t, err, status.InvalidArgument, "; 3 came")
	}
}

func TestCodecs(t *testing.T) {
	f := make1(t, func(a int64) int64 { return a }, dispatch.Options{})
	_, err := f.Call(context.Background(), wire.CodecRaw, nil, nil)
	checkRefused(t, err, status.InvalidArgument, "f does not take codec raw (0)")
	for _, by := range []wire.Codec{wire.CodecProtobuf, 200} {
		_, err = f.Call(context.Background(), by, nil, nil)
		checkRefused(t, err, status.Unimplemented, fmt.Sprintf("codec %d is not supported", by))
	}
	_, err = f.Call(context.Background(), wire.CodecJSON, []byte(`[300`), nil)
	checkRefused(t, err, status.InvalidArgument, "malformed")
	if f.Raw() != nil {
		t.Error("a function of integers is raw")
	}
}

func TestRaw(t *testing.T) {
	failure := errors.New("no")
	for _, fn := range []any{
		func(data []byte) []byte { return append([]byte("<"), data...) },
		func(data []byte) ([]byte, error) { return append([]byte("<"), data...), nil },
		func(_ context.Context, data []byte) ([]byte, error) { return append([]byte("<"), data...), nil },
		func(data json.RawMessage) json.RawMessage { return append(json.RawMessage("<"), data...) },
		dispatch.Func1(func(_ context.Context, data []byte) ([]byte, error) { return append([]byte("<"), data...), nil }),
	} {
		f := make1(t, fn, dispatch.Options{})
		direct, err := f.Raw()(context.Background(), []byte("x"))
		if err != nil || string(direct) != "<x" {
			t.Errorf("%T: %q, %v", fn, direct, err)
		}
		out, err := f.Call(context.Background(), wire.CodecRaw, []byte("x"), []byte("kept"))
		if err != nil || string(out) != "kept<x" {
			t.Errorf("%T: %q, %v", fn, out, err)
		}
		got, err := call(t, fn, []byte("x"))
		if err != nil || !reflect.DeepEqual(got, []byte("<x")) {
			t.Errorf("%T: %v, %v", fn, got, err)
		}
	}
	for _, fn := range []any{
		func([]byte) ([]byte, error) { return []byte("dropped"), failure },
		func(json.RawMessage) ([]byte, error) { return nil, failure },
	} {
		f := make1(t, fn, dispatch.Options{})
		_, err := f.Raw()(context.Background(), nil)
		checkExecuted(t, err, status.Unknown, "no")
		_, err = f.Call(context.Background(), wire.CodecRaw, nil, nil)
		checkExecuted(t, err, status.Unknown, "no")
	}
}

func checkExecuted(t *testing.T, err error, code status.Code, message string) {
	t.Helper()
	var failure *status.Error
	if !errors.As(err, &failure) || failure.Outcome != status.OutcomeExecuted || failure.Code != code || failure.Message != message {
		t.Errorf("%v, want %v, executed: %s", err, code, message)
	}
}

func TestErrorsOfTheFunction(t *testing.T) {
	inner := &status.Error{Code: status.NotFound, Outcome: status.OutcomeNotExecuted, Message: "gone", Details: []status.Detail{{Type: "x"}}}
	for _, test := range []struct {
		err     error
		code    status.Code
		message string
	}{
		{errors.New("plain"), status.Unknown, "plain"},
		{inner, status.NotFound, "gone"},
		{&status.Error{Message: "no code"}, status.Unknown, "no code"},
		{context.DeadlineExceeded, status.DeadlineExceeded, context.DeadlineExceeded.Error()},
	} {
		for _, fn := range []any{
			func(int64) (int64, error) { return 5, test.err },
			func(point) (int, string, error) { return 0, "", test.err },
			dispatch.Func1(func(context.Context, *string) (dispatch.None, error) { return dispatch.None{}, test.err }),
		} {
			var args []any
			switch fn.(type) {
			case func(int64) (int64, error):
				args = []any{1}
			case func(point) (int, string, error):
				args = []any{point{}}
			}
			_, err := call(t, fn, args...)
			checkExecuted(t, err, test.code, test.message)
		}
	}
	if inner.Outcome != status.OutcomeNotExecuted {
		t.Error("the function's own error was changed")
	}
}

func TestResultsThatCannotBeEncoded(t *testing.T) {
	for _, fn := range []any{
		func() string { return "\xff" },
		func() any { return make(chan int) },
		func() (int, []string) { return 1, []string{"\xff"} },
		dispatch.Func0(func(context.Context) ([]any, error) { return []any{func() {}}, nil }),
	} {
		_, err := call(t, fn)
		failure := status.FromError(err)
		if failure == nil || failure.Outcome != status.OutcomeExecutedResultLost || failure.Code != status.Internal ||
			!strings.Contains(failure.Message, "the result of f cannot be encoded") {
			t.Errorf("%T: %v", fn, err)
		}
	}
}

func TestRegistrationSaysWhere(t *testing.T) {
	var none func()
	var noAdapter func(context.Context) (int, error)
	for _, test := range []struct {
		fn      any
		options dispatch.Options
		want    string
	}{
		{func(int64, map[float64]int) {}, dispatch.Options{ParamNames: []string{"a", "b"}}, "parameter 2 (b) of ack: map key type float64 is not supported: use string or an integer type"},
		{func() chan int { return nil }, dispatch.Options{}, "result 1 of ack: type chan int is not supported"},
		{dispatch.Func1(func(context.Context, chan int) (int, error) { return 0, nil }), dispatch.Options{}, "parameter 1 (arg1) of ack: type chan int"},
		{none, dispatch.Options{}, "function ack is nil"},
		{dispatch.Func0(noAdapter), dispatch.Options{}, "function ack is nil"},
		{nil, dispatch.Options{}, "<nil> is not a function"},
		{5, dispatch.Options{}, "int is not a function"},
		{func() {}, dispatch.Options{MaxRunTime: -1}, "never negative"},
		{func() {}, dispatch.Options{MaxConcurrency: -1}, "never negative"},
	} {
		if _, err := dispatch.NewFunction("ack", test.fn, test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%T: %v, want %s", test.fn, err, test.want)
		}
	}
	if _, err := dispatch.NewFunction("", func() {}, dispatch.Options{}); err == nil {
		t.Error("a function without a name was accepted")
	}
}

func TestDescription(t *testing.T) {
	options := dispatch.Options{Doc: "Adds.", ParamNames: []string{"m", "n"}, Idempotent: true, MaxRunTime: time.Second, MaxConcurrency: 4}
	with := make1(t, func(_ context.Context, m, n int64) (int64, error) { return m + n, nil }, options)
	const want = `{"doc":"Adds.","hash":"5471651312619a8315c50cb410fc4e41f61f13ab0c4f188c3db3a4b419262a4a","idempotent":true,"name":"f","params":[{"name":"m","type":"int64"},{"name":"n","type":"int64"}],"results":["int64"]}`
	if got := string(with.Description().JSON()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if !reflect.DeepEqual(with.Options(), options) || !with.TakesContext() {
		t.Errorf("%+v, takes context %v", with.Options(), with.TakesContext())
	}
	without := make1(t, func(m, n int64) int64 { return m + n }, dispatch.Options{})
	if without.TakesContext() {
		t.Error("a function without a context takes one")
	}
	if got := string(make1(t, func(string) error { return nil }, dispatch.Options{}).Description().JSON()); !strings.Contains(got, `"results":[]`) {
		t.Errorf("a function that returns only an error is described as %s", got)
	}
}

// Frames are shared between calls: none may see another's arguments.
func TestFramesKeepNothing(t *testing.T) {
	for _, fn := range []any{
		func(_ context.Context, a string, b *string) (bool, error) { return b == nil, nil },
		dispatch.Func2(func(_ context.Context, a string, b *string) (bool, error) { return b == nil, nil }),
		func(a string, more ...string) bool { return len(more) == 0 },
		func(a string, b, c, d, e, f, g, h, i *string) (bool, error) { return b == nil, nil },            // more than registers hold
		func(a string, b *string) (string, string, string, string, bool) { return a, a, a, a, b == nil }, // by package reflect
	} {
		f := make1(t, fn, dispatch.Options{})
		full, short := encode(t, []any{"a", "b"}), encode(t, []any{"a"})
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for range 500 {
					for _, payload := range [][]byte{full, short} {
						out, err := f.Call(context.Background(), wire.CodecMessagePack, payload, nil)
						if wasShort := out[len(out)-1] == 0xC3; err != nil || wasShort != (len(payload) == len(short)) {
							t.Errorf("%x gave %x, %v", payload, out, err)
							return
						}
					}
				}
			})
		}
		group.Wait()
	}
}

func TestPanicsPassThrough(t *testing.T) {
	for _, fn := range []any{func(int64) int64 { panic("mine") }, func(point) { panic("mine") }} {
		f := make1(t, fn, dispatch.Options{})
		arg := any(int64(1))
		if f.Description().Params[0].Type.Struct != "" {
			arg = point{}
		}
		func() {
			defer func() {
				if got := recover(); got != "mine" {
					t.Errorf("%T: recovered %v", fn, got)
				}
			}()
			f.Call(context.Background(), wire.CodecMessagePack, encode(t, []any{arg}), nil)
		}()
	}
}

// FuzzCall: no payload makes a call do worse than refuse.
func FuzzCall(f *testing.F) {
	type person struct {
		Name    string
		Friends []*person
		Any     any
	}
	functions := []*dispatch.Function{
		make1(f, func(p person, numbers ...int8) (person, int) { return p, len(numbers) }, dispatch.Options{}),
		make1(f, func(a, b int64) int64 { return a + b }, dispatch.Options{}),
		make1(f, func(data []byte) []byte { return data }, dispatch.Options{}),
		make1(f, func(numbers []float64, rows [][]int16, flags []bool) ([]float64, [][]int16, []bool) {
			return numbers, rows, flags
		}, dispatch.Options{}),
	}
	f.Add([]byte("\x93\xC7\x0A\x02\x0B\x0012345678\x91\xC7\x06\x02\x03\x02--1234\xC7\x03\x02\x01\x00\x01"))
	f.Add(encode(f, []any{1, 2}))
	f.Add(encode(f, []any{person{Friends: []*person{nil, {Name: "x"}}}, 3}))
	f.Add([]byte(`[{"Name":"x"},1,2]`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, function := range functions {
			for _, by := range []wire.Codec{wire.CodecRaw, wire.CodecMessagePack, wire.CodecJSON, wire.CodecPacked} {
				_, err := function.Call(context.Background(), by, payload, nil)
				var failure *status.Error
				if err != nil && (!errors.As(err, &failure) || failure.Outcome != status.OutcomeNotExecuted) && by != wire.CodecJSON {
					t.Errorf("%v by %v: %v", payload, by, err)
				}
			}
		}
	})
}
