//go:build gc && (amd64 || arm64) && go1.26 && !go1.27

package invoke

import "unsafe"

// A function of which some parameters are passed on the stack is called through a type of
// functions whose first parameter is an array. The array may be larger than what the function
// takes from the stack, because a function may overwrite what it was passed. It may only not
// return anything on the stack, which would lie behind the array.

// stackWords is what is passed on the stack.
type stackWords interface {
	[8]uintptr | [24]uintptr | [stackWordsMost]uintptr
}

const stackWordsMost = 64

// intResultsBesideStack is how many result words besides floats such a function may have: an
// error, and text or what is smaller.
const intResultsBesideStack = 4

// chooseStack is choose1 for functions that take stackBytes from the stack.
func chooseStack(stackBytes uintptr, pointers uint) invoker {
	switch words := (stackBytes + wordBytes - 1) / wordBytes; {
	case words <= 8:
		return stackChoose1[[8]uintptr](pointers)
	case words <= 24:
		return stackChoose1[[24]uintptr](pointers)
	}
	return stackChoose1[[stackWordsMost]uintptr](pointers)
}

func stackChoose1[S stackWords](pointers uint) invoker {
	if pointers&1 != 0 {
		return stackChoose2[S, unsafe.Pointer](pointers >> 1)
	}
	return stackChoose2[S, uintptr](pointers >> 1)
}

func stackChoose2[S stackWords, A resultWord](pointers uint) invoker {
	if pointers&1 != 0 {
		return stackChoose3[S, A, unsafe.Pointer](pointers >> 1)
	}
	return stackChoose3[S, A, uintptr](pointers >> 1)
}

func stackChoose3[S stackWords, A, B resultWord](pointers uint) invoker {
	if pointers&1 != 0 {
		return stackChoose4[S, A, B, unsafe.Pointer](pointers >> 1)
	}
	return stackChoose4[S, A, B, uintptr](pointers >> 1)
}

func stackChoose4[S stackWords, A, B, C resultWord](pointers uint) invoker {
	if pointers&1 != 0 {
		return invokeWithStack[S, A, B, C, unsafe.Pointer]
	}
	return invokeWithStack[S, A, B, C, uintptr]
}

// invokeWithStack is an invoker as invokeFor is.
func invokeWithStack[S stackWords, A, B, C, D resultWord](fn unsafe.Pointer, with *words, out unsafe.Pointer) {
	call := *(*func(s S, i0, i1, i2, i3, i4, i5, i6, i7, i8 uintptr, f0, f1, f2, f3, f4, f5, f6, f7 float64) (A, B, C, D, float64, float64, float64, float64))(unsafe.Pointer(&fn))
	i, f := &with.ints, &with.floats
	a, b, c, d, f0, f1, f2, f3 := call(*(*S)(unsafe.Pointer(with.stack)),
		i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], i[8], f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7])
	*(*A)(out) = a
	*(*B)(unsafe.Add(out, 1*wordBytes)) = b
	*(*C)(unsafe.Add(out, 2*wordBytes)) = c
	*(*D)(unsafe.Add(out, 3*wordBytes)) = d
	*(*[floatResults]float64)(unsafe.Add(out, intResults*wordBytes)) = [floatResults]float64{f0, f1, f2, f3}
}
