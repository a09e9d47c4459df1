// Package invoke calls functions of any type whose arguments lie in memory, in a frame that
// is used for one call after the other. A call allocates nothing if its arguments and
// results fit into the registers in which Go passes them, and if this is a platform whose
// registers the package knows. All other functions are called by package reflect.
package invoke

import (
	"fmt"
	"reflect"
	"runtime"

	"github.com/nearcall/nearcall/internal/memory"
)

// A Function is a function with the layout of its frames. It is immutable and may be used by
// many goroutines.
type Function struct {
	fn    reflect.Value
	frame reflect.Type
	// params and results say where each lies in a frame. The results lie there after a call.
	params, results []uintptr
	// registers is nil for a function that is called by package reflect.
	registers *registers
}

// A Frame holds the arguments and the results of one call at a time. It belongs to the
// function that made it. Before a call, all of its memory must be zero or hold an argument.
type Frame struct {
	whole memory.Memory
	value reflect.Value // the same
	words words

	// These are for package reflect.
	in, out []reflect.Value
}

// New returns the function fn, which must not be nil. The last parameter of a variadic
// function is a slice.
func New(fn reflect.Value) *Function {
	f := &Function{fn: fn}
	f.registers = registersOf(fn)
	var fields fieldList
	t := fn.Type()
	for i := range t.NumIn() {
		fields.add(t.In(i))
	}
	for i := range t.NumOut() {
		fields.add(t.Out(i))
	}
	if f.registers != nil {
		fields.add(f.registers.results)
	}
	f.frame = reflect.StructOf(fields)
	f.params = f.offsets(0, t.NumIn())
	f.results = f.offsets(t.NumIn(), t.NumOut())
	if f.registers != nil {
		f.registers.place(f)
	}
	return f
}

type fieldList []reflect.StructField

func (l *fieldList) add(t reflect.Type) {
	*l = append(*l, reflect.StructField{Name: fmt.Sprintf("F%d", len(*l)), Type: t})
}

// offsets returns where count fields of the frame begin, from the one with number first on.
func (f *Function) offsets(first, count int) []uintptr {
	offsets := make([]uintptr, count)
	for i := range offsets {
		offsets[i] = f.frame.Field(first + i).Offset
	}
	return offsets
}

// NewFrame makes a frame for calls of the function.
func (f *Function) NewFrame() *Frame {
	made := reflect.New(f.frame)
	frame := &Frame{value: made.Elem()}
	frame.whole = memory.Of(frame.value)
	if f.registers != nil {
		f.registers.prepare(frame)
	} else {
		for i := range f.params {
			frame.in = append(frame.in, frame.value.Field(i))
		}
		for i := range f.results {
			frame.out = append(frame.out, frame.value.Field(len(f.params)+i))
		}
	}
	return frame
}

// Param returns where the argument for a parameter lies.
func (f *Function) Param(frame *Frame, index int) memory.Memory {
	return frame.whole.Behind(f.params[index])
}

// Result returns where a result lies.
func (f *Function) Result(frame *Frame, index int) memory.Memory {
	return frame.whole.Behind(f.results[index])
}

// Call calls the function with the arguments in the frame. If the function panics, or ends
// its goroutine, the frame must not be used again.
func (f *Function) Call(frame *Frame) {
	if f.registers != nil {
		f.registers.call(frame)
	} else {
		f.reflect(frame)
	}
	runtime.KeepAlive(frame)
}

func (f *Function) reflect(frame *Frame) {
	call := f.fn.Call
	if f.fn.Type().IsVariadic() {
		call = f.fn.CallSlice
	}
	for i, result := range call(frame.in) {
		frame.out[i].Set(result)
	}
}

// Clear makes the memory of the frame zero, so that it keeps nothing alive and no call sees
// what another left.
func (frame *Frame) Clear() { frame.value.SetZero() }
