//go:build gc && (amd64 || arm64) && go1.26 && !go1.27

package invoke

import (
	"reflect"
	"unsafe"

	"github.com/nearcall/nearcall/internal/memory"
)

// words are what is loaded into registers for a call. The pointers among them are numbers
// here, which keep nothing alive: the frame does, where the arguments lie until the call
// has ended.
type words struct {
	ints   [intParams]uintptr
	floats [floatParams]float64
	stack  *[stackWordsMost]uintptr // nil if nothing is passed on the stack
}

// registers say how one function is called.
type registers struct {
	fn unsafe.Pointer // what a variable of the function's type holds
	// ints and floats are the words of all parameters, with offsets within the frame.
	ints, floats []word
	stack        []region
	// results is the type of the memory into which the result registers are stored, at
	// resultsAt in the frame.
	results   reflect.Type
	resultsAt uintptr
	invoke    invoker
	// moves put together results that lie differently in memory than in registers.
	moves []move
}

// An invoker calls fn with all words, and stores the result registers at out.
type invoker func(fn unsafe.Pointer, with *words, out unsafe.Pointer)

// registersOf returns how to call fn, or nil if its words cannot all be passed or taken.
func registersOf(fn reflect.Value) *registers {
	t := fn.Type()
	var params, results assignment
	for i := range t.NumIn() {
		if !params.add(t.In(i), 0) {
			return nil
		}
	}
	for i := range t.NumOut() {
		if !results.add(t.Out(i), 0) {
			return nil
		}
	}
	r := &registers{}
	switch {
	case !params.areParams():
		return nil
	case params.stackBytes == 0 && results.areResults(intResults):
		r.invoke = choose1(pointersOf(results.ints))
	case params.stackBytes > 0 && results.areResults(intResultsBesideStack):
		r.invoke = chooseStack(params.stackBytes, pointersOf(results.ints))
	default:
		return nil
	}
	holder := reflect.New(t)
	holder.Elem().Set(fn)
	r.fn, r.results = *(*unsafe.Pointer)(holder.UnsafePointer()), memoryOfResults(results.ints)
	return r
}

// place finds out where the words of parameters and results lie in the frames of a function.
func (r *registers) place(f *Function) {
	t := f.fn.Type()
	var params assignment
	for i := range t.NumIn() {
		params.add(t.In(i), f.params[i])
	}
	r.ints, r.floats, r.stack = params.ints, params.floats, params.stack
	r.resultsAt = f.frame.Field(f.frame.NumField() - 1).Offset
	nextInt, nextFloat := r.resultsAt, r.resultsAt+intResults*wordBytes
	for i := range t.NumOut() {
		var result assignment
		result.add(t.Out(i), 0)
		f.results[i] = r.placeResult(&result, f.results[i], nextInt, nextFloat)
		nextInt += uintptr(len(result.ints)) * wordBytes
		nextFloat += uintptr(len(result.floats)) * wordBytes
	}
}

// prepare gives a frame what calls of the function need.
func (r *registers) prepare(frame *Frame) {
	if len(r.stack) > 0 {
		frame.words.stack = new([stackWordsMost]uintptr)
	}
}

func shifted(words []word, offset uintptr) []word {
	for i := range words {
		words[i].offset += offset
	}
	return words
}

// placeResult returns where a result lies. Most lie in registers as they do in memory, so
// that they need not be moved: of a word that is only in part used, the first bytes are.
// Others are moved to the place of their own.
func (r *registers) placeResult(result *assignment, own, nextInt, nextFloat uintptr) uintptr {
	switch {
	case len(result.floats) == 0 && areBeside(result.ints):
		return nextInt
	case len(result.ints) == 0 && areBeside(result.floats):
		return nextFloat
	}
	for i, to := range shifted(result.ints, own) {
		r.moves = append(r.moves, move{nextInt + uintptr(i)*wordBytes, to})
	}
	for i, to := range shifted(result.floats, own) {
		r.moves = append(r.moves, move{nextFloat + uintptr(i)*wordBytes, to})
	}
	return own
}

// areBeside reports whether words lie in memory as registers are stored.
func areBeside(words []word) bool {
	for i, w := range words {
		if w.offset != uintptr(i)*wordBytes {
			return false
		}
	}
	return true
}

func (r *registers) call(frame *Frame) {
	base := memory.Pointer(frame.whole)
	for i, w := range r.ints {
		frame.words.ints[i] = w.load(base)
	}
	for i, w := range r.floats {
		if w.bytes == 4 {
			// A float32 lies in the first bytes of the register.
			*(*float32)(unsafe.Pointer(&frame.words.floats[i])) = *(*float32)(unsafe.Add(base, w.offset))
		} else {
			frame.words.floats[i] = *(*float64)(unsafe.Add(base, w.offset))
		}
	}
	for _, of := range r.stack {
		copy(bytesAt(unsafe.Pointer(frame.words.stack), of.onStack, of.bytes), bytesAt(base, of.offset, of.bytes))
	}
	r.invoke(r.fn, &frame.words, unsafe.Add(base, r.resultsAt))
	for _, m := range r.moves {
		m.move(base)
	}
}

func bytesAt(base unsafe.Pointer, offset, count uintptr) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(base, offset)), count)
}
