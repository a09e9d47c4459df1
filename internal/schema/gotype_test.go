package schema_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/schema"
)

type identifier int64

type base struct {
	ID     identifier `json:"id,omitempty"`
	Hidden string     `json:"hidden"`
}

type person struct {
	base
	Name    string             `nearcall:"name" json:"other"`
	Age     *int64             `json:"age"`
	Tags    []string           `json:"tags"`
	Friends []person           `json:"friends"`
	ByName  map[string]*person `json:"by_name"`
	Left    chan int           `json:"-"`
	Also    chan int           `nearcall:"-"`
	Hidden  bool               `json:"hidden"`
	Born    time.Time
	_       chan int
}

type pair[A, B any] struct {
	First  A
	Second B
}

func describe(t *testing.T, value any) (string, schema.Types) {
	t.Helper()
	made, types, err := schema.FromGoType(reflect.TypeOf(value))
	if err != nil {
		t.Fatal(err)
	}
	return made.String(), types
}

func TestGoTypes(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{true, "bool"}, {int8(0), "int8"}, {int16(0), "int16"}, {int32(0), "int32"}, {int64(0), "int64"}, {0, "int64"},
		{uint8(0), "uint8"}, {uint16(0), "uint16"}, {uint32(0), "uint32"}, {uint64(0), "uint64"}, {uint(0), "uint64"},
		{float32(0), "float32"}, {float64(0), "float64"}, {"", "string"}, {[]byte{}, "bytes"}, {json.RawMessage{}, "bytes"},
		{time.Time{}, "time"}, {time.Duration(0), "duration"}, {identifier(0), "int64"},
		{(*os.File)(nil), "file"}, {(*net.TCPConn)(nil), "connection"}, {(**os.File)(nil), "optional file"},
		{map[string][]*os.File{}, "map of string to list of file"},
		{[]any{}, "list of any"}, {[][]byte{}, "list of bytes"}, {map[string]int{}, "map of string to int64"},
		{map[uint8][]string{}, "map of uint8 to list of string"}, {new(string), "optional string"},
		{person{}, "person"}, {[]*person{}, "list of optional person"}, {pair[int, person]{}, "pair_int_schema_test_person"},
	} {
		if got, _ := describe(t, test.value); got != test.want {
			t.Errorf("%T is %s, want %s", test.value, got, test.want)
		}
	}
}

func TestStructFields(t *testing.T) {
	_, types := describe(t, person{})
	var got []string
	for _, field := range types["person"].Fields {
		got = append(got, field.Name+" "+field.Type.String())
	}
	want := "id int64, name string, age optional int64, tags list of string, friends list of person, " +
		"by_name map of string to optional person, hidden bool, Born time"
	if strings.Join(got, ", ") != want {
		t.Errorf("fields are %s\nwant %s", strings.Join(got, ", "), want)
	}
	if len(types) != 1 {
		t.Errorf("%d structs are reached, want 1", len(types))
	}
}

type (
	endless     []endless
	endlessMap  map[string]endlessMap
	onlyPrivate struct{ _ int }
	embedsPtr   struct{ *base }
	twice       struct {
		A int `nearcall:"x"`
		B int `nearcall:"x"`
	}
	holdsChan struct {
		Inner struct{ C []chan int }
	}
	stringer interface{ String() string }
)

func TestUsesDescriptors(t *testing.T) {
	type inner struct{ Files []*os.File }
	type outer struct{ Inner []inner }
	for _, test := range []struct {
		fn   any
		want bool
	}{
		{func(string, []byte) any { return nil }, false}, {func(person) {}, false},
		{func(*os.File) {}, true}, {func(int) *net.TCPConn { return nil }, true},
		{func(...*os.File) {}, true}, {func(map[string]**os.File) {}, true}, {func(outer) {}, true},
	} {
		if got := function(t, "f", test.fn, schema.GoOptions{}).UsesDescriptors(); got != test.want {
			t.Errorf("%T: %v", test.fn, got)
		}
	}
}

func TestUnsupportedTypesSayWhere(t *testing.T) {
	type person struct{ Other int }
	for _, test := range []struct {
		fn   any
		want string
	}{
		{func(context.Context, int64, map[float64]int) {}, "parameter 2 (b) of ack: map key type float64 is not supported: use string or an integer type"},
		{func(int, chan int) {}, "parameter 2 (b) of ack: type chan int is not supported"},
		{func(int, func()) {}, "parameter 2 (b) of ack: type func() is not supported"},
		{func(int, complex128) {}, "parameter 2 (b) of ack: type complex128 is not supported"},
		{func(int, [4]int) {}, "parameter 2 (b) of ack: type [4]int is not supported: use a slice"},
		{func(int, uintptr) {}, "use uint64"},
		{func(int, stringer) {}, "use any or a concrete type"},
		{func(int, context.Context) {}, "type context.Context is not supported"},
		{func(int, **int) {}, "nil would have two meanings"},
		{func(int, *any) {}, "nil would have two meanings"},
		{func(int, endless) {}, "contains itself without a struct in between"},
		{func(int, endlessMap) {}, "contains itself without a struct in between"},
		{func(int, onlyPrivate) {}, "no exported field"},
		{func(int, embedsPtr) {}, "embedded pointer *schema_test.base is not supported"},
		{func(int, twice) {}, `two fields called "x"`},
		{func(int, holdsChan) {}, "parameter 2 (b) of ack: field Inner of holdsChan: field C of holdsChan_Inner: type chan int"},
		{func(a, b int) (error, error) { return nil, nil }, "result 1 of ack: type error is not supported"},
		{func(globalPerson, person) {}, "two types are called person"},
		{func(int, [][][][][][][][][][][][][][][][][][][][][][][][][][][][][][][]int) {}, "nested deeper than 32"},
		{func(int) {}, "1 parameters besides its context, but 2 names were given"},
	} {
		signature, err := schema.SignatureOf(reflect.TypeOf(test.fn))
		if err == nil {
			_, err = schema.FromGoFunction("ack", signature, schema.GoOptions{ParamNames: []string{"a", "b"}})
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%T: %v\nwant %s", test.fn, err, test.want)
		}
	}
}

type globalPerson = person

func TestFunctionNamesAreChecked(t *testing.T) {
	signature, err := schema.SignatureOf(reflect.TypeOf(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "a b", "a\n", "\xff", strings.Repeat("x", 256)} {
		if _, err := schema.FromGoFunction(name, signature, schema.GoOptions{}); err == nil {
			t.Errorf("the function name %q was accepted", name)
		}
		if _, err := schema.FromGoFunction("f", signature, schema.GoOptions{ParamNames: []string{name}}); err == nil && len(name) < 256 {
			t.Errorf("the parameter name %q was accepted", name)
		}
	}
	for _, name := range []string{"a", "a.b/c-d", "größe", strings.Repeat("x", 255)} {
		if _, err := schema.FromGoFunction(name, signature, schema.GoOptions{}); err != nil {
			t.Errorf("the function name %q: %v", name, err)
		}
	}
	if _, err := schema.FromGoFunction("f", signature, schema.GoOptions{Doc: "\xff"}); err == nil {
		t.Error("documentation that is not UTF-8 was accepted")
	}
	if _, err := schema.SignatureOf(reflect.TypeOf(1)); err == nil {
		t.Error("a number was accepted as a function")
	}
}
