package invoke_test

import (
	"fmt"
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

// An onStack has more words than registers hold.
type onStack struct {
	Text string
	List []*content
	At   *content
	ByID map[int]*content
	Any  any
}

// deepOnStack makes the stack grow, and collects at its end, while everything that was
// passed on the stack is still needed.
//
//go:noinline
func deepOnStack(depth int, text string, all onStack, at *content, list []*content, f float64) (string, error) {
	var room [512]byte
	room[depth%512] = byte(depth)
	if depth > 0 {
		if got, err := deepOnStack(depth-1, text, all, at, list, f); err != nil || got == "" {
			return got, err
		}
	} else {
		runtime.GC()
		runtime.KeepAlive(junk())
	}
	n := at[0]
	for _, c := range []*content{all.List[0], all.At, all.ByID[1], all.Any.(*content), list[0]} {
		if *c != (content{n, n, n, n}) {
			return "", fmt.Errorf("at depth %d: %v instead of %d", depth, *c, n)
		}
	}
	return fmt.Sprint(all.Text, text, room[depth%512]-byte(depth), f), nil
}

func TestWhatIsOnTheStackLivesForTheCall(t *testing.T) {
	f, of := newFunction(deepOnStack)
	if runtime.GOARCH == "amd64" && !f.UsesRegisters() {
		t.Fatal("this is to be called without package reflect")
	}
	frame := f.NewFrame()
	fresh := func(n int) *content { return &content{n, n, n, n} }
	for n := range 4 {
		done := make(chan []reflect.Value)
		// Each call begins with the small stack of a new goroutine.
		go func() {
			all := onStack{fmt.Sprint("s", n), []*content{fresh(n)}, fresh(n), map[int]*content{1: fresh(n)}, fresh(n)}
			done <- run(f, frame, of, []reflect.Value{reflect.ValueOf(50), reflect.ValueOf("text"), reflect.ValueOf(all),
				reflect.ValueOf(fresh(n)), reflect.ValueOf([]*content{fresh(n)}), reflect.ValueOf(1.5)})
		}()
		if got := <-done; got[0].String() != fmt.Sprintf("s%dtext0 1.5", n) || !got[1].IsNil() {
			t.Fatalf("call %d: %q, %v", n, got[0], got[1])
		}
	}
}
