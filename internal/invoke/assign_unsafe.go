//go:build gc && (amd64 || arm64) && go1.26 && !go1.27

package invoke

import (
	"reflect"
	"runtime"
	"unsafe"
)

// Go passes arguments and results in registers, as its ABIInternal says
// (https://go.dev/s/regabi): the words of a value are assigned in their order, integers and
// pointers to registers of one kind and floats to registers of another. That a word is an
// int32 or a uint8, that a type has a name, and where in a struct a word lies makes no
// difference, and neither does whether two words belong to one parameter or to two. A
// parameter for which too few registers are left is passed on the stack, as it lies in
// memory. So all functions whose words fit into registers can be called through one type of
// functions with as many words, and all others through one with an array before these words,
// because arrays are always passed on the stack.

// These are how many words are passed.
const (
	intParams, floatParams   = 9, 8
	intResults, floatResults = 7, 4
)

// registersOfMachine are how many registers there are for integers and for floats.
func registersOfMachine() (ints, floats int) {
	if runtime.GOARCH == "arm64" {
		return 16, 16
	}
	return 9, 15
}

const wordBytes = 8

// A word is what one register holds of a parameter or result.
type word struct {
	offset uintptr // from the begin of the value
	bytes  uint8   // 1, 2, 4 or 8
	// pointer says that the garbage collector follows the word.
	pointer bool
}

// A region is a parameter that is passed on the stack.
type region struct {
	offset  uintptr // in the frame
	onStack uintptr
	bytes   uintptr
}

// An assignment is how values lie in registers and on the stack, in their order.
type assignment struct {
	ints, floats []word
	stack        []region
	stackBytes   uintptr
	// spill is how many bytes a function that is called may use to keep its arguments.
	spill uintptr
}

// add adds a value, which lies at an offset in the frame. It reports false if it does not
// know how the value is passed.
func (a *assignment) add(t reflect.Type, offset uintptr) bool {
	if t.Size() == 0 {
		return false // it would move what comes after it
	}
	ints, floats := len(a.ints), len(a.floats)
	if !a.addAt(t, offset) {
		return false
	}
	intsMost, floatsMost := registersOfMachine()
	if len(a.ints) <= intsMost && len(a.floats) <= floatsMost {
		a.spill = alignUp(a.spill, uintptr(t.Align())) + t.Size()
		return true
	}
	a.ints, a.floats = a.ints[:ints], a.floats[:floats]
	at := alignUp(a.stackBytes, uintptr(t.Align()))
	a.stack = append(a.stack, region{offset: offset, onStack: at, bytes: t.Size()})
	a.stackBytes = at + t.Size()
	return true
}

func alignUp(offset, align uintptr) uintptr { return (offset + align - 1) &^ (align - 1) }

func (a *assignment) addAt(t reflect.Type, offset uintptr) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		a.ints = append(a.ints, word{offset: offset, bytes: uint8(t.Size())})
	case reflect.Pointer, reflect.Map, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		a.addWords(offset, true)
	case reflect.String:
		a.addWords(offset, true, false)
	case reflect.Slice:
		a.addWords(offset, true, false, false)
	case reflect.Interface:
		// The collector does not follow the type of what an interface holds.
		a.addWords(offset, false, true)
	case reflect.Float32, reflect.Float64:
		a.floats = append(a.floats, word{offset: offset, bytes: uint8(t.Size())})
	case reflect.Struct:
		for i := range t.NumField() {
			if field := t.Field(i); !a.addAt(field.Type, offset+field.Offset) {
				return false
			}
		}
	default:
		return false // arrays and complex numbers
	}
	return true
}

func (a *assignment) addWords(offset uintptr, pointers ...bool) {
	for i, pointer := range pointers {
		a.ints = append(a.ints, word{offset: offset + uintptr(i)*wordBytes, bytes: wordBytes, pointer: pointer})
	}
}

// areParams reports whether parameters can be passed: all words are, what is on the stack has
// room, and what the function keeps fits into what a caller of so many words leaves for it.
func (a *assignment) areParams() bool {
	return len(a.ints) <= intParams && len(a.floats) <= floatParams && a.stackBytes <= stackWordsMost*wordBytes &&
		a.spill <= (intParams+floatParams)*wordBytes
}

// areResults reports whether results can be taken: there are as many words, and none is on
// the stack.
func (a *assignment) areResults(intsMost int) bool {
	return len(a.ints) <= intsMost && len(a.floats) <= floatResults && len(a.stack) == 0
}

// load returns the word of an integer or pointer.
func (w word) load(from unsafe.Pointer) uintptr {
	at := unsafe.Add(from, w.offset)
	switch w.bytes {
	case 1:
		return uintptr(*(*uint8)(at))
	case 2:
		return uintptr(*(*uint16)(at))
	case 4:
		return uintptr(*(*uint32)(at))
	}
	return *(*uintptr)(at)
}

// A move copies a word of a result to its place in the result.
type move struct {
	from uintptr
	to   word
}

func (m move) move(in unsafe.Pointer) {
	from, to := unsafe.Add(in, m.from), unsafe.Add(in, m.to.offset)
	switch {
	case m.to.pointer:
		*(*unsafe.Pointer)(to) = *(*unsafe.Pointer)(from)
	case m.to.bytes == 1:
		*(*uint8)(to) = *(*uint8)(from)
	case m.to.bytes == 2:
		*(*uint16)(to) = *(*uint16)(from)
	case m.to.bytes == 4:
		*(*uint32)(to) = *(*uint32)(from)
	default:
		*(*uint64)(to) = *(*uint64)(from)
	}
}
