// Package schema describes functions as spec/schema.md does: their types, the
// description of one function, the document of all of a server's, and what
// changes between two documents callers survive.
//
// It holds no values: encoding them by a description is codec's.
package schema

import (
	"fmt"
	"slices"
	"strings"
)

// A Kind is one row of the schema's table of types.
type Kind uint8

// The kinds. The zero Kind is no type.
const (
	Invalid Kind = iota
	Bool
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float32
	Float64
	String
	Bytes
	Time
	Duration
	Any
	File
	Connection
	List
	Map
	Optional
	StructRef
)

// lastBasic is the last kind whose name is a type by itself.
const lastBasic = Connection

// kindNames are the names of the kinds in the schema.
var kindNames = [...]string{Invalid: "invalid", Bool: "bool", Int8: "int8", Int16: "int16", Int32: "int32", Int64: "int64",
	Uint8: "uint8", Uint16: "uint16", Uint32: "uint32", Uint64: "uint64",
	Float32: "float32", Float64: "float64", String: "string", Bytes: "bytes",
	Time: "time", Duration: "duration", Any: "any", File: "file", Connection: "connection",
	List: "list", Map: "map", Optional: "optional", StructRef: "struct"}

// String returns the kind's name in the schema.
func (k Kind) String() string { return kindNames[k] }

// Bits returns the width of an integer or float kind, 0 for all others.
func (k Kind) Bits() int {
	switch k {
	case Int8, Uint8:
		return 8
	case Int16, Uint16:
		return 16
	case Int32, Uint32, Float32:
		return 32
	case Int64, Uint64, Float64:
		return 64
	}
	return 0
}

// IsSigned reports whether k is a signed integer.
func (k Kind) IsSigned() bool { return k >= Int8 && k <= Int64 }

// IsUnsigned reports whether k is an unsigned integer.
func (k Kind) IsUnsigned() bool { return k >= Uint8 && k <= Uint64 }

// IsDescriptor reports whether a value of k is a descriptor that travels beside
// the payload.
func (k Kind) IsDescriptor() bool { return k == File || k == Connection }

// IsMapKey reports whether k may be the key of a map.
func (k Kind) IsMapKey() bool { return k == String || k.IsSigned() || k.IsUnsigned() }

// A Type is the type of one value. Types are immutable once made.
type Type struct {
	Kind Kind
	// Element is what a List, Map or Optional holds.
	Element *Type
	// Key is the kind of a Map's keys.
	Key Kind
	// Struct names a StructRef's fields in Function.Types.
	Struct string
}

// String returns the type in words, such as "map of string to list of Person".
func (t Type) String() string {
	switch t.Kind {
	case List:
		return "list of " + t.Element.String()
	case Map:
		return "map of " + t.Key.String() + " to " + t.Element.String()
	case Optional:
		return "optional " + t.Element.String()
	case StructRef:
		return t.Struct
	}
	return t.Kind.String()
}

// Equal reports whether both are the same type; structs by name.
func (t Type) Equal(other Type) bool {
	if t.Kind != other.Kind || t.Key != other.Key || t.Struct != other.Struct {
		return false
	}
	if t.Element == nil || other.Element == nil {
		return t.Element == other.Element
	}
	return t.Element.Equal(*other.Element)
}

// A Param is a named parameter. For a variadic function the last one's type is
// that of each further argument.
type Param struct {
	Name string
	Type Type
}

// A Field is a named field of a struct.
type Field struct {
	Name string
	Type Type
}

// A Struct is a set of fields, in the order of their declaration.
type Struct struct {
	Fields []Field
}

// Equal reports whether both have the same fields in the same order.
func (s Struct) Equal(other Struct) bool {
	return slices.EqualFunc(s.Fields, other.Fields, func(a, b Field) bool {
		return a.Name == b.Name && a.Type.Equal(b.Type)
	})
}

// Types are the structs that a description names.
type Types map[string]Struct

// UsesDescriptors reports whether values of t may hold descriptors; types has all
// structs that t reaches.
func (t Type) UsesDescriptors(types Types) bool {
	switch {
	case t.Kind.IsDescriptor():
		return true
	case t.Element != nil:
		return t.Element.UsesDescriptors(types)
	}
	return t.Kind == StructRef && types.useDescriptors()
}

// HoldsBytes reports whether arguments may hold bytes inside lists, maps or structs, or lists
// that may travel as one block.
func (f *Function) HoldsBytes() bool {
	holds := func(t Type) bool { return t.Element != nil && t.leaf().Kind == Bytes || t.holdsBlocks() }
	for _, made := range f.Types {
		if slices.ContainsFunc(made.Fields, func(field Field) bool { return field.Type.leaf().Kind == Bytes || holds(field.Type) }) {
			return true
		}
	}
	return slices.ContainsFunc(f.Params, func(p Param) bool { return holds(p.Type) })
}

// useDescriptors: a struct that holds none while another that the same function
// reaches does is rare enough.
func (types Types) useDescriptors() bool {
	for _, made := range types {
		for _, field := range made.Fields {
			if field.Type.leaf().Kind.IsDescriptor() {
				return true
			}
		}
	}
	return false
}

// holdsBlocks reports whether the type is a list that may travel as one block, or holds such
// lists.
func (t Type) holdsBlocks() bool {
	for ; t.Element != nil; t = *t.Element {
		if t.isBlock() {
			return true
		}
	}
	return false
}

// isBlock reports whether the type is a list that may travel as one block.
func (t Type) isBlock() bool {
	if t.Kind != List {
		return false
	}
	kind := t.Element.Kind
	return kind.Bits() > 0 || kind == Bool || kind == Duration
}

// holdBlocks is holdsBlocks for a type with all the structs that it reaches.
func (types Types) holdBlocks(t Type) bool {
	if t.holdsBlocks() {
		return true
	}
	if t.leaf().Kind == StructRef {
		for _, made := range types {
			if slices.ContainsFunc(made.Fields, func(field Field) bool { return field.Type.holdsBlocks() }) {
				return true
			}
		}
	}
	return false
}

// leaf returns what lists, maps and optional values hold in the end.
func (t Type) leaf() Type {
	for t.Element != nil {
		t = *t.Element
	}
	return t
}

// A Function is the description of a function. It is immutable once made and
// may be used by many goroutines.
type Function struct {
	Name       string
	Doc        string
	Idempotent bool
	// Raw: one bytes parameter, one bytes result; codec 0 is taken as well.
	Raw      bool
	Variadic bool
	Params   []Param
	Results  []Type
	// Types holds every struct the function reaches, and no other.
	Types Types
	// Hash is that of all of the above but Doc, in 64 hexadecimal digits.
	Hash string
}

// UsesDescriptors reports whether arguments or results may hold descriptors.
func (f *Function) UsesDescriptors() bool {
	uses := func(t Type) bool { return t.UsesDescriptors(f.Types) }
	return slices.ContainsFunc(f.Results, uses) ||
		slices.ContainsFunc(f.Params, func(p Param) bool { return uses(p.Type) })
}

// ParamAt returns the parameter that the argument at index is for, which for a
// variadic function may be beyond the last.
func (f *Function) ParamAt(index int) (Param, bool) {
	if f.Variadic && index >= len(f.Params)-1 {
		index = len(f.Params) - 1
	}
	if index >= len(f.Params) {
		return Param{}, false
	}
	return f.Params[index], true
}

// CheckArgumentCount refuses a number of arguments that the function does not
// take. Arguments missing at the end must be optional.
func (f *Function) CheckArgumentCount(count int) error {
	if count == len(f.Params) && !f.Variadic {
		return nil // as nearly all callers do
	}
	return f.checkUnusualCount(count)
}

func (f *Function) checkUnusualCount(count int) error {
	required := f.requiredCount()
	switch {
	case count < required:
		return fmt.Errorf("%s takes %s; %d came, and argument %d (%s) is missing",
			f.Name, f.countText(required), count, count+1, f.Params[count].Name)
	case count > len(f.Params) && !f.Variadic:
		return fmt.Errorf("%s takes %s; %d came", f.Name, f.countText(required), count)
	}
	return nil
}

// requiredCount is the least number of arguments.
func (f *Function) requiredCount() int {
	count := len(f.Params)
	if f.Variadic {
		count--
	}
	for count > 0 && f.Params[count-1].Type.Kind == Optional {
		count--
	}
	return count
}

func (f *Function) countText(required int) string {
	plural := "s"
	if required == 1 {
		plural = ""
	}
	switch {
	case f.Variadic:
		return fmt.Sprintf("%d or more argument%s", required, plural)
	case required < len(f.Params):
		return fmt.Sprintf("%d to %d arguments", required, len(f.Params))
	}
	return fmt.Sprintf("%d argument%s", required, plural)
}

// Field returns the type of a struct's field.
func (types Types) Field(structName, field string) (Type, bool) {
	for _, candidate := range types[structName].Fields {
		if candidate.Name == field {
			return candidate.Type, true
		}
	}
	return Type{}, false
}

// FieldNames lists the fields of a struct, for whoever has named another.
func (types Types) FieldNames(structName string) string {
	var names []string
	for _, field := range types[structName].Fields {
		names = append(names, field.Name)
	}
	return strings.Join(names, ", ")
}
