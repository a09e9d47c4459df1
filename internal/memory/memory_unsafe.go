// Package memory reads and writes values whose types are known only at run time, without
// the checks of package reflect. Plans of package codec and frames of package invoke are
// made of it: both find out once, from the type, what lies where.
package memory

import (
	"reflect"
	"unsafe"
)

// A Memory is where a value lies. It keeps the value alive. It does not know the type, so
// whoever reads or writes has to: every method and function here must be used with the type
// with which the memory was allocated.
type Memory struct{ at unsafe.Pointer }

// Of returns where an addressable value lies.
func Of(v reflect.Value) Memory { return Memory{v.Addr().UnsafePointer()} }

// At returns where a variable lies.
func At[T any](value *T) Memory { return Memory{unsafe.Pointer(value)} }

// New allocates a value of a type.
func New(t reflect.Type) Memory { return Memory{reflect.New(t).UnsafePointer()} }

// As returns the value, of whose type the underlying type of T is.
func As[T any](m Memory) *T { return (*T)(m.at) }

// Value returns the value for package reflect, addressable and settable.
func (m Memory) Value(t reflect.Type) reflect.Value { return reflect.NewAt(t, m.at).Elem() }

// Behind returns where that lies which is offset bytes behind the begin of the same value.
func (m Memory) Behind(offset uintptr) Memory { return Memory{unsafe.Add(m.at, offset)} }

// Elements returns where the first element of a slice lies, and how many there are.
func (m Memory) Elements() (first Memory, count int) {
	elements := *(*[]struct{})(m.at)
	return Memory{unsafe.Pointer(unsafe.SliceData(elements))}, len(elements)
}

// SetEmpty makes a slice one that has no elements and no room, and is not nil.
func (m Memory) SetEmpty() { *(*[]struct{})(m.at) = []struct{}{} }

// Bytes returns the count bytes at m, which hold no pointers. The slice is m's memory.
func (m Memory) Bytes(count int) []byte { return unsafe.Slice((*byte)(m.at), count) }

// SetElements makes data the elements of a slice, which are elementBytes long, hold no
// pointers, and allow every pattern of bits. The slice owns data with its capacity from now
// on. It must be aligned for the elements, as an allocation is whose size theirs divides.
func (m Memory) SetElements(data []byte, elementBytes int) {
	room := unsafe.Slice(unsafe.SliceData(data), cap(data)/elementBytes)
	*(*[]byte)(m.at) = room[:len(data)/elementBytes]
}

// Room returns all the memory that a slice has, also beyond its length, for elements that are
// elementBytes long and hold no pointers.
func (m Memory) Room(elementBytes int) []byte {
	elements := *(*[]struct{})(m.at)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(elements))), cap(elements)*elementBytes)
}

// Aligned reports whether data lies where a value of that many bytes may lie.
func Aligned(data []byte, bytes int) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(bytes) == 0
}

// Target returns where the value lies to which a pointer points. It reports false if the
// pointer is nil.
func (m Memory) Target() (Memory, bool) {
	target := *(*unsafe.Pointer)(m.at)
	return Memory{target}, target != nil
}

// Point makes a pointer point to a value.
func (m Memory) Point(to Memory) { *(*unsafe.Pointer)(m.at) = to.at }

// BitsOf returns the size of a number.
func BitsOf[T any]() int { return int(8 * unsafe.Sizeof(*new(T))) }

// Pointer returns the memory for code that deals with single words.
func Pointer(m Memory) unsafe.Pointer { return m.at }
