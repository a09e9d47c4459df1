package schema

import (
	"fmt"
	"math/bits"
	"net"
	"os"
	"reflect"
	"strings"
	"time"
)

// A GoField is a field of a Go struct as the schema sees it. Embedded structs are
// flattened, so Index may lead through them.
type GoField struct {
	Name  string
	Index []int
	Type  reflect.Type
}

// FromGoType returns the schema type for a Go type, and the structs that it uses. The
// error says what is not supported, and where in the type it is.
func FromGoType(t reflect.Type) (Type, Types, error) {
	b := newTypeBuilder()
	made, err := b.build(t, "")
	if err != nil {
		return Type{}, nil, err
	}
	return made, b.types, nil
}

// typeBuilder collects the structs of one function.
type typeBuilder struct {
	types Types
	// origins distinguishes two Go types with the same name.
	origins map[string]reflect.Type
	// open are the types under construction that have no name in the schema. If one
	// occurs within itself, its description would never end.
	open map[reflect.Type]bool
}

func newTypeBuilder() *typeBuilder {
	return &typeBuilder{types: Types{}}
}

// specialKind returns the kind of Go types whose own kind says something else.
func specialKind(t reflect.Type) Kind {
	switch t {
	case reflect.TypeFor[time.Time]():
		return Time
	case reflect.TypeFor[time.Duration]():
		return Duration
	case reflect.TypeFor[*os.File]():
		return File
	case reflect.TypeFor[*net.TCPConn]():
		return Connection
	}
	return Invalid
}

// basicKind returns the kind that stands for a Go type by itself, or Invalid if there
// is none.
func basicKind(t reflect.Type) Kind {
	if special := specialKind(t); special != Invalid {
		return special
	}
	switch t.Kind() {
	case reflect.Bool:
		return Bool
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		return ofBits(t.Bits(), Int8, Int16, Int32, Int64)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		return ofBits(t.Bits(), Uint8, Uint16, Uint32, Uint64)
	case reflect.Float32:
		return Float32
	case reflect.Float64:
		return Float64
	case reflect.String:
		return String
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return Bytes
		}
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return Any
		}
	}
	return Invalid
}

// ofBits returns one of four kinds, which have 8, 16, 32 and 64 bits.
func ofBits(have int, kinds ...Kind) Kind { return kinds[bits.TrailingZeros(uint(have))-3] }

// build returns the schema type of t. name is the name for an anonymous struct here.
func (b *typeBuilder) build(t reflect.Type, name string) (Type, error) {
	if kind := basicKind(t); kind != Invalid {
		return Type{Kind: kind}, nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.buildStruct(t, name)
	case reflect.Slice, reflect.Map, reflect.Pointer:
		if b.open[t] {
			return Type{}, fmt.Errorf("type %s contains itself without a struct in between: put it into a struct", t)
		}
		if b.open == nil {
			b.open = map[reflect.Type]bool{}
		}
		b.open[t] = true
		defer delete(b.open, t)
		return b.buildContainer(t, name)
	}
	return Type{}, unsupported(t)
}

func (b *typeBuilder) buildContainer(t reflect.Type, name string) (Type, error) {
	made := Type{Kind: List}
	switch t.Kind() {
	case reflect.Map:
		made.Kind = Map
		made.Key = basicKind(t.Key())
		if !made.Key.IsMapKey() {
			return Type{}, fmt.Errorf("map key type %s is not supported: use string or an integer type", t.Key())
		}
	case reflect.Pointer:
		made.Kind = Optional
		kind, element := basicKind(t.Elem()), t.Elem()
		if element.Kind() == reflect.Pointer && !kind.IsDescriptor() || kind == Any {
			return Type{}, fmt.Errorf("type %s is not supported: nil would have two meanings; use *T or any", t)
		}
	}
	element, err := b.build(t.Elem(), name)
	made.Element = &element
	return made, err
}

func unsupported(t reflect.Type) error {
	hint := "use a basic type, a slice, a map, a struct or a pointer to one of these"
	switch t.Kind() {
	case reflect.Interface:
		hint = "use any or a concrete type"
	case reflect.Array:
		hint = "use a slice"
	case reflect.Uintptr:
		hint = "use uint64"
	case reflect.Chan, reflect.Func:
		hint = "it has no meaning in another process"
	}
	return fmt.Errorf("type %s is not supported: %s", t, hint)
}

func (b *typeBuilder) buildStruct(t reflect.Type, path string) (Type, error) {
	name := structName(t, path)
	made := Type{Kind: StructRef, Struct: name}
	if known, ok := b.origins[name]; ok {
		if known != t {
			return Type{}, fmt.Errorf("two types are called %s: %s.%s and %s.%s; rename one", name,
				known.PkgPath(), known, t.PkgPath(), t)
		}
		return made, nil
	}
	if b.origins == nil {
		b.origins = map[string]reflect.Type{}
	}
	b.origins[name] = t
	// The name of a struct ends any description, so its fields begin anew.
	around := b.open
	b.open = nil
	defer func() { b.open = around }()
	fields, err := b.buildFields(t, name)
	b.types[name] = Struct{Fields: fields}
	return made, err
}

func (b *typeBuilder) buildFields(t reflect.Type, name string) ([]Field, error) {
	goFields, err := GoFields(t)
	if err != nil {
		return nil, err
	}
	fields := make([]Field, len(goFields))
	for i, field := range goFields {
		fieldType, err := b.build(field.Type, name+"_"+field.Name)
		if err != nil {
			return nil, fmt.Errorf("field %s of %s: %w", field.Name, name, err)
		}
		fields[i] = Field{Name: field.Name, Type: fieldType}
	}
	return fields, nil
}

// structName returns the name of a type in the schema. It is Go's own name, with the
// brackets of a generic type made into words, or the path to an anonymous struct.
func structName(t reflect.Type, path string) string {
	goName := t.Name()
	if goName == "" {
		goName = path
	}
	var name strings.Builder
	for _, word := range strings.FieldsFunc(goName, func(r rune) bool { return strings.ContainsRune("[],* ", r) }) {
		if name.Len() > 0 {
			name.WriteByte('_')
		}
		if slash := strings.LastIndexByte(word, '/'); slash >= 0 {
			word = word[slash+1:]
		}
		name.WriteString(strings.ReplaceAll(word, ".", "_"))
	}
	return name.String()
}
