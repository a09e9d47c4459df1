//go:build gc && (amd64 || arm64) && go1.26 && !go1.27

package invoke

import (
	"reflect"
	"unsafe"
)

// The garbage collector has to know which result registers hold pointers, from the moment in
// which the function returns. So there is a way to call for each combination of pointers and
// other words among the first intResults. Words that a function does not return are no
// pointers here, whatever a register then holds.

// resultWord is what a result register may hold besides a float.
type resultWord interface{ uintptr | unsafe.Pointer }

// pointersOf returns the set of the words that are pointers.
func pointersOf(results []word) (pointers uint) {
	for i, w := range results {
		if w.pointer {
			pointers |= 1 << i
		}
	}
	return pointers
}

// memoryOfResults returns the type of the memory into which the registers are stored.
func memoryOfResults(results []word) reflect.Type {
	pointers := pointersOf(results)
	var fields fieldList
	for i := range intResults {
		if pointers>>i&1 != 0 {
			fields.add(reflect.TypeFor[unsafe.Pointer]())
		} else {
			fields.add(reflect.TypeFor[uintptr]())
		}
	}
	for range floatResults {
		fields.add(reflect.TypeFor[float64]())
	}
	return reflect.StructOf(fields)
}

// choose1 and those that follow choose the type of one word each, by a bit of pointers.
func choose1(pointers uint) invoker {
	if pointers&1 != 0 {
		return choose2[unsafe.Pointer](pointers >> 1)
	}
	return choose2[uintptr](pointers >> 1)
}

func choose2[A resultWord](pointers uint) invoker {
	if pointers&1 != 0 {
		return choose3[A, unsafe.Pointer](pointers >> 1)
	}
	return choose3[A, uintptr](pointers >> 1)
}

func choose3[A, B resultWord](pointers uint) invoker {
	if pointers&1 != 0 {
		return choose4[A, B, unsafe.Pointer](pointers >> 1)
	}
	return choose4[A, B, uintptr](pointers >> 1)
}

func choose4[A, B, C resultWord](pointers uint) invoker {
	if pointers&1 != 0 {
		return choose5[A, B, C, unsafe.Pointer](pointers >> 1)
	}
	return choose5[A, B, C, uintptr](pointers >> 1)
}

func choose5[A, B, C, D resultWord](pointers uint) invoker {
	if pointers&1 != 0 {
		return choose6[A, B, C, D, unsafe.Pointer](pointers >> 1)
	}
	return choose6[A, B, C, D, uintptr](pointers >> 1)
}

func choose6[A, B, C, D, E resultWord](pointers uint) invoker {
	if pointers&1 != 0 {
		return choose7[A, B, C, D, E, unsafe.Pointer](pointers >> 1)
	}
	return choose7[A, B, C, D, E, uintptr](pointers >> 1)
}

func choose7[A, B, C, D, E, F resultWord](pointers uint) invoker {
	if pointers&1 != 0 {
		return invokeFor[A, B, C, D, E, F, unsafe.Pointer]
	}
	return invokeFor[A, B, C, D, E, F, uintptr]
}

// invokeFor is an invoker. Registers that fn does not use are loaded and stored with the
// others; what they hold means nothing.
func invokeFor[A, B, C, D, E, F, G resultWord](fn unsafe.Pointer, with *words, out unsafe.Pointer) {
	call := *(*func(i0, i1, i2, i3, i4, i5, i6, i7, i8 uintptr, f0, f1, f2, f3, f4, f5, f6, f7 float64) (A, B, C, D, E, F, G, float64, float64, float64, float64))(unsafe.Pointer(&fn))
	i, f := &with.ints, &with.floats
	a, b, c, d, e, g, h, f0, f1, f2, f3 := call(i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], i[8], f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7])
	*(*A)(out) = a
	*(*B)(unsafe.Add(out, 1*wordBytes)) = b
	*(*C)(unsafe.Add(out, 2*wordBytes)) = c
	*(*D)(unsafe.Add(out, 3*wordBytes)) = d
	*(*E)(unsafe.Add(out, 4*wordBytes)) = e
	*(*F)(unsafe.Add(out, 5*wordBytes)) = g
	*(*G)(unsafe.Add(out, 6*wordBytes)) = h
	*(*[floatResults]float64)(unsafe.Add(out, intResults*wordBytes)) = [floatResults]float64{f0, f1, f2, f3}
}
