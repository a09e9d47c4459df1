package invoke_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/invoke"
)

// run calls fn with args in a frame and returns what it returned.
func run(f *invoke.Function, frame *invoke.Frame, t reflect.Type, args []reflect.Value) []reflect.Value {
	for i, arg := range args {
		f.Param(frame, i).Value(t.In(i)).Set(arg)
	}
	f.Call(frame)
	results := make([]reflect.Value, t.NumOut())
	for i := range results {
		results[i] = reflect.New(t.Out(i)).Elem()
		results[i].Set(f.Result(frame, i).Value(t.Out(i)))
	}
	frame.Clear()
	return results
}

func newFunction(fn any) (*invoke.Function, reflect.Type) {
	return invoke.New(reflect.ValueOf(fn)), reflect.TypeOf(fn)
}

type (
	packed struct {
		A int8
		B int32
		C bool
		D uint16
	}
	mixed struct {
		A float32
		B uint8
		C float64
		D *int
		_ int8
		E string
	}
	named  int16
	nested struct {
		In packed
		F  named
	}
	hidden struct {
		shown int
		_     int32
		left  chan int
	}
	account struct{ sum int }
)

func (a *account) add(of int8, name string) (int, string) { return a.sum + int(of), name + "!" }

// functionsOfMany are compiled functions: what package reflect makes at run time is tested
// below.
func functionsOfMany() []any {
	five := 5
	return []any{
		func() {}, func() int8 { return -3 }, func() (bool, error) { return true, errors.New("no") },
		func(a int8, b uint16, c int32, d uint64, e bool, f named) (named, bool, uint64, int32, uint16, int8) {
			return f, e, d, c, b, a
		},
		func(a float32, b int, c float64, d float32) (float32, float64, int, float32) { return d, c, b, a },
		func(a packed) packed { a.A, a.B, a.C, a.D = a.A+1, a.B-1, !a.C, a.D+7; return a },
		func(a mixed, b int) (mixed, int) { a.C, a.E = a.C*2, a.E+"x"; return a, b + 1 },
		func(a nested) (nested, string) { a.F++; return a, "s" },
		func(a hidden) hidden { a.shown++; a.left = nil; return a },
		func(a []string, b map[string]int, c *int) (*int, map[string]int, []string) { return c, b, a },
		func(a any, b error, c fmt.Stringer) (fmt.Stringer, any) { return c, a },
		func(t time.Time, d time.Duration) (time.Time, error) { return t.Add(d), nil },
		func(a int, more ...string) (int, []string) { return a + len(more), more },
		func(a, b, c, d, e, f, g, h, i int) int { return a + 2*b + 3*c + 4*d + 5*e + 6*f + 7*g + 8*h + 9*i },
		func(a, b, c, d, e, f, g, h float64, i, j int32) float64 {
			return a + 2*b + 3*c + 4*d + 5*e + 6*f + 7*g + 8*h + float64(i*j)
		},
		func(f func() int, c chan int) (int, chan int) { return 1, c },
		(&account{sum: five}).add, strings.ToUpper, strings.Cut,
		func(a, b, c, d, e, f, g, h, i, j int) int { return a + 2*b + 10*j },
		func(a, b mixed, c packed, d string, e int8) (int8, string, float64) {
			return e, a.E + b.E + d, a.C + b.C
		},
		func(a, b, c, d, e string, f packed, g float32, h, i, j []int) (float32, error) {
			return g, errors.New(e + a)
		},
		// These do not fit.
		func(a, b, c, d, e string, f packed, g float32, h, i, j []int) (packed, []int, string) { return f, j, e },
		func(a, b, c, d string) (string, string, string, string) { return d, c, b, a },
		func(a [2]int, b complex64) ([2]int, complex64) { return [2]int{a[1], a[0]}, b * 2 },
		func(a struct{}, b int, c [1]int) (struct{}, int) { return a, b + c[0] },
	}
}

func TestFunctionsOfEveryShape(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, fn := range functionsOfMany() {
		f, of := newFunction(fn)
		frame := f.NewFrame()
		for range 20 {
			args := randomValues(random, of.NumIn(), of.In)
			call := reflect.ValueOf(fn).Call
			if of.IsVariadic() {
				call = reflect.ValueOf(fn).CallSlice
			}
			compare(t, of, args, call(args), run(f, frame, of, args))
		}
	}
}

func compare(t *testing.T, of reflect.Type, args, want, got []reflect.Value) {
	t.Helper()
	for i := range want {
		if !reflect.DeepEqual(plain(want[i]), plain(got[i])) {
			t.Errorf("%s of %v: result %d is %v, want %v", of, args, i, plain(got[i]), plain(want[i]))
		}
	}
}

// plain returns a value that can be compared and printed.
func plain(v reflect.Value) any {
	if v.Kind() == reflect.Func {
		return v.Pointer()
	}
	return v.Interface()
}

// TestRegistersAreUsed fails with a version of Go with which this package was not tried yet.
// If all other tests here pass when the build constraints of registers_unsafe.go and the
// files beside it allow that version, they may.
func TestRegistersAreUsed(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Logf("%s has no registers that this package knows", runtime.GOARCH)
		return
	}
	for _, fn := range []any{
		func(context.Context, int64, string) (string, int64, error) { return "", 0, nil },
		func(packed, mixed) error { return nil },
		func([]int64) ([]int64, time.Time) { return nil, time.Time{} },
		// Some of these are passed on the stack.
		func(a, b, c, d, e, f, g, h, i, j int) {},
		func(context.Context, struct{ A, B, C mixed }, packed, packed, string) (string, error) { return "", nil },
	} {
		if f, of := newFunction(fn); !f.UsesRegisters() {
			t.Errorf("%s is called by package reflect", of)
		}
	}
	// These return on the stack, have a word too many, or are passed in other ways.
	for _, fn := range []any{
		func(a, b, c, d, e, f, g, h, i, j int) (string, string, error) { return "", "", nil },
		func(a, b, c, d, e, f, g, h, i float64) {}, func([2]int) {}, func(complex128) {}, func(struct{}) {},
		func() (a, b, c, d string) { return }, func() (a, b, c, d, e float32) { return },
		func(a struct {
			A int8
			_ [0]int64
		}, b, c, d, e, f, g, h, i struct {
			A int8
			_ [0]int64
		}) {
		},
	} {
		if f, of := newFunction(fn); f.UsesRegisters() {
			t.Errorf("%s is called through registers", of)
		}
	}
}

// TestRandomSignatures lets package reflect, which knows where values are passed, make
// functions of types that nobody thought of.
func TestRandomSignatures(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	inRegisters := 0
	for range 1000 {
		in, out := randomTypes(random, 6), randomTypes(random, 4)
		var args, results, came []reflect.Value
		made := reflect.MakeFunc(reflect.FuncOf(in, out, false), func(args []reflect.Value) []reflect.Value {
			came = args
			return results
		})
		of := made.Type()
		f := invoke.New(made)
		if f.UsesRegisters() {
			inRegisters++
		}
		frame := f.NewFrame()
		for range 3 {
			args, results = randomValues(random, of.NumIn(), of.In), randomValues(random, of.NumOut(), of.Out)
			got := run(f, frame, of, args)
			compare(t, of, args, results, got)
			compare(t, of, args, args, came)
		}
		if t.Failed() {
			return
		}
	}
	if inRegisters < 200 {
		t.Errorf("only %d of these functions were called through registers", inRegisters)
	}
}

func randomTypes(random *rand.Rand, most int) []reflect.Type {
	types := make([]reflect.Type, random.IntN(most+1))
	for i := range types {
		types[i] = randomType(random, 0)
	}
	return types
}

func randomType(random *rand.Rand, depth int) reflect.Type {
	basic := []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[int8](), reflect.TypeFor[uint16](), reflect.TypeFor[int32](), reflect.TypeFor[uint64](),
		reflect.TypeFor[int](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](),
		reflect.TypeFor[*int](), reflect.TypeFor[map[string]int](), reflect.TypeFor[any](), reflect.TypeFor[error](), reflect.TypeFor[named](),
	}
	if depth > 2 || random.IntN(4) > 0 {
		return basic[random.IntN(len(basic))]
	}
	var fields []reflect.StructField
	for i := range random.IntN(4) {
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: randomType(random, depth+1)})
	}
	return reflect.StructOf(fields)
}

func randomValues(random *rand.Rand, count int, of func(int) reflect.Type) []reflect.Value {
	values := make([]reflect.Value, count)
	for i := range values {
		values[i] = reflect.New(of(i)).Elem()
		fillRandomly(random, values[i])
	}
	return values
}

func fillRandomly(random *rand.Rand, v reflect.Value) {
	if !v.CanSet() {
		return
	}
	number := random.Uint64()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(number&1 == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(number) >> (64 - v.Type().Bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(number >> (64 - v.Type().Bits()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(int32(number)))
	case reflect.Complex64:
		v.SetComplex(complex(float64(int16(number)), 1))
	case reflect.String:
		v.SetString(fmt.Sprint(number))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillRandomly(random, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), int(number%4), 4))
		for i := range v.Len() {
			fillRandomly(random, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Array:
		for i := range v.Len() {
			fillRandomly(random, v.Index(i))
		}
	case reflect.Interface:
		if value := reflect.ValueOf(errors.New(fmt.Sprint(number))); value.CanConvert(v.Type()) {
			v.Set(value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fillRandomly(random, v.Field(i))
		}
	}
}

// deep makes the stack grow while everything that was passed is still needed.
//
//go:noinline
func deep(depth int, text string, list []string, at *int, f float64, e error) (string, *int, []string, error) {
	var room [512]byte
	room[depth%512] = byte(depth)
	if depth > 0 {
		_, _, _, _ = deep(depth-1, text+"x", list, at, f, e)
	}
	runtime.KeepAlive(&room)
	own := *at + len(list) + int(f)
	return text + list[0] + e.Error(), &own, append([]string{}, list...), e
}

// TestCollectorFollowsEverything calls while the garbage collector runs all the time and
// stacks grow: neither arguments nor results may be lost, and none may stay in a frame.
func TestCollectorFollowsEverything(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	f, of := newFunction(deep)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			frame := f.NewFrame()
			for i := range 150 {
				at := worker*1000 + i
				args := []reflect.Value{reflect.ValueOf(i % 40), reflect.ValueOf(fmt.Sprint("t", i)), reflect.ValueOf([]string{fmt.Sprint("l", i)}),
					reflect.ValueOf(&at), reflect.ValueOf(float64(i)), reflect.ValueOf(fmt.Errorf("e%d", i))}
				got := run(f, frame, of, args)
				text, sum, list := got[0].String(), *got[1].Interface().(*int), got[2].Interface().([]string)
				if text != fmt.Sprintf("t%dl%de%d", i, i, i) || sum != at+1+i || list[0] != fmt.Sprint("l", i) {
					t.Errorf("got %q, %d, %q of call %d", text, sum, list, i)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestClearedFramesKeepNothing(t *testing.T) {
	f, of := newFunction(func(c *content, text string) (*content, error) { return c, nil })
	frame := f.NewFrame()
	collected := make(chan struct{})
	func() {
		kept := &content{}
		runtime.SetFinalizer(kept, func(*content) { close(collected) })
		run(f, frame, of, []reflect.Value{reflect.ValueOf(kept), reflect.ValueOf("text")})
	}()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		runtime.GC()
		select {
		case <-collected:
			runtime.KeepAlive(frame)
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("a cleared frame kept an argument for 30 s")
}

func TestPanicsAndEndsPassThrough(t *testing.T) {
	f, _ := newFunction(func(fail bool) (int, string) {
		if fail {
			panic("mine")
		}
		runtime.Goexit()
		return 0, ""
	})
	func() {
		defer func() {
			if got := recover(); got != "mine" {
				t.Errorf("recovered %v", got)
			}
		}()
		frame := f.NewFrame()
		f.Param(frame, 0).Value(reflect.TypeFor[bool]()).SetBool(true)
		f.Call(frame)
	}()
	var group sync.WaitGroup
	returned := false
	group.Go(func() {
		f.Call(f.NewFrame())
		returned = true
	})
	group.Wait()
	if returned {
		t.Error("a function that ended its goroutine has returned")
	}
}
