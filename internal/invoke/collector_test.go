package invoke_test

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/nearcall/nearcall/internal/invoke"
)

type content [4]int

// junk takes the memory of what was collected, and writes over it.
func junk() (all []*content) {
	for range 2000 {
		all = append(all, &content{-1, -1, -1, -1})
	}
	return all
}

// A returned is a call that has ended, with its results in the frame.
type returned struct {
	function *invoke.Function
	frame    *invoke.Frame
	out      []reflect.Type
}

// returnFresh calls a function that returns, at a set of places, pointers that nothing but
// the frame keeps alive, and at the others numbers.
func returnFresh(set, places int) returned {
	var out []reflect.Type
	for i := range places {
		out = append(out, reflect.TypeFor[int]())
		if set>>i&1 != 0 {
			out[i] = reflect.TypeFor[*content]()
		}
	}
	made := reflect.MakeFunc(reflect.FuncOf(nil, out, false), func([]reflect.Value) (results []reflect.Value) {
		for i, of := range out {
			results = append(results, reflect.ValueOf(i))
			if of.Kind() == reflect.Pointer {
				results[i] = reflect.ValueOf(&content{i, i, i, i})
			}
		}
		return results
	})
	f := invoke.New(made)
	call := returned{f, f.NewFrame(), out}
	f.Call(call.frame)
	return call
}

func (r *returned) check(t *testing.T) {
	for i, of := range r.out {
		got := r.function.Result(r.frame, i).Value(of)
		if of.Kind() == reflect.Pointer && *got.Interface().(*content) != (content{i, i, i, i}) || of.Kind() == reflect.Int && got.Int() != int64(i) {
			t.Errorf("result %d of %v is %v", i, r.out, got)
		}
	}
}

func TestResultsLiveInTheFrame(t *testing.T) {
	const places = 7
	var all []returned
	for set := range 1 << places {
		all = append(all, returnFresh(set, places))
	}
	runtime.GC()
	over := junk()
	for i := range all {
		all[i].check(t)
	}
	runtime.KeepAlive(over)
}

// TestArgumentsLiveForTheCall collects while the only references to the arguments are those
// that were passed.
func TestArgumentsLiveForTheCall(t *testing.T) {
	f, of := newFunction(func(text string, at *content, list []*content, of map[string]*content, some any, _ float64) (sum int) {
		runtime.GC()
		over := junk()
		sum = len(text) + at[0] + list[0][1] + of["a"][2] + some.(*content)[3]
		runtime.KeepAlive(over)
		return sum
	})
	if runtime.GOARCH == "amd64" && !f.UsesRegisters() {
		t.Fatal("this is to be called through registers")
	}
	frame := f.NewFrame()
	fresh := func(n int) *content { return &content{n, n, n, n} }
	for range 5 {
		f.Param(frame, 0).Value(of.In(0)).SetString(string(make([]byte, 5)))
		f.Param(frame, 1).Value(of.In(1)).Set(reflect.ValueOf(fresh(10)))
		f.Param(frame, 2).Value(of.In(2)).Set(reflect.ValueOf([]*content{fresh(100)}))
		f.Param(frame, 3).Value(of.In(3)).Set(reflect.ValueOf(map[string]*content{"a": fresh(1000)}))
		f.Param(frame, 4).Value(of.In(4)).Set(reflect.ValueOf(fresh(10_000)))
		f.Call(frame)
		if sum := f.Result(frame, 0).Value(of.Out(0)).Int(); sum != 11_115 {
			t.Fatalf("the sum is %d", sum)
		}
		frame.Clear()
	}
}
