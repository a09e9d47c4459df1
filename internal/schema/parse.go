package schema

import (
	"fmt"
	"math"
	"slices"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
)

// ParseFunction reads a description from MessagePack and returns what follows
// it. Keys it does not know are ignored. Nothing of the result aliases src.
func ParseFunction(src []byte) (*Function, []byte, error) {
	tree, rest, err := msgpack.ReadAny(src, 0)
	if err != nil {
		return nil, src, fmt.Errorf("description: %w", err)
	}
	f, err := functionFromTree(tree, nil)
	if err != nil {
		return nil, src, fmt.Errorf("description: %w", err)
	}
	return f, rest, nil
}

// ParseFunctionJSON reads a description from JSON, as the schema document has it
// with the types beside it.
func ParseFunctionJSON(text []byte) (*Function, error) {
	tree, err := readJSONTree(text)
	if err != nil {
		return nil, fmt.Errorf("description: %w", err)
	}
	f, err := functionFromTree(tree, nil)
	if err != nil {
		return nil, fmt.Errorf("description: %w", err)
	}
	return f, nil
}

// functionFromTree reads one description; shared holds the structs of a whole
// document, nil where the description has its own.
func functionFromTree(tree any, shared Types) (*Function, error) {
	object, err := asObject(tree)
	if err != nil {
		return nil, err
	}
	f := &Function{}
	if f.Name, err = member[string](object, "name", true); err != nil {
		return nil, err
	}
	if err := CheckFunctionName(f.Name); err != nil {
		return nil, err
	}
	if err := f.readMembers(object); err != nil {
		return nil, fmt.Errorf("function %s: %w", f.Name, err)
	}
	if shared == nil {
		if shared, err = typesFromTree(object["types"]); err != nil {
			return nil, fmt.Errorf("function %s: %w", f.Name, err)
		}
	}
	if err := f.takeTypes(shared); err != nil {
		return nil, fmt.Errorf("function %s: %w", f.Name, err)
	}
	if err := f.readHash(object); err != nil {
		return nil, fmt.Errorf("function %s: %w", f.Name, err)
	}
	return f, f.check()
}

func (f *Function) readMembers(object map[string]any) (err error) {
	if f.Doc, err = member[string](object, "doc", false); err != nil {
		return err
	}
	for key, flag := range map[string]*bool{"idempotent": &f.Idempotent, "raw": &f.Raw, "variadic": &f.Variadic} {
		if *flag, err = member[bool](object, key, false); err != nil {
			return err
		}
	}
	params, err := namedTypes(object, "params")
	for _, param := range params {
		f.Params = append(f.Params, Param(param))
	}
	if err != nil {
		return err
	}
	results, err := member[[]any](object, "results", true)
	for i, result := range results {
		made, err := typeFromTree(result, 0)
		if err != nil {
			return fmt.Errorf("result %d: %w", i+1, err)
		}
		f.Results = append(f.Results, made)
	}
	return err
}

// check refuses descriptions that contradict themselves.
func (f *Function) check() error {
	names := make([]string, len(f.Params))
	for i, param := range f.Params {
		names[i] = param.Name
	}
	if err := checkParamNames(f.Name, names); err != nil {
		return err
	}
	if f.Variadic && len(f.Params) == 0 {
		return fmt.Errorf("function %s is variadic but has no parameter", f.Name)
	}
	if f.Raw && !f.isRaw() {
		return fmt.Errorf("function %s is raw but is not of one bytes parameter and one bytes result", f.Name)
	}
	return nil
}

// takeTypes keeps the structs that f reaches.
func (f *Function) takeTypes(shared Types) error {
	f.Types = Types{}
	var pending []Type
	for _, param := range f.Params {
		pending = append(pending, param.Type)
	}
	pending = append(pending, f.Results...)
	for len(pending) > 0 {
		t := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if t.Element != nil {
			pending = append(pending, *t.Element)
		}
		if _, taken := f.Types[t.Struct]; t.Kind != StructRef || taken {
			continue
		}
		made, known := shared[t.Struct]
		if !known {
			return fmt.Errorf("struct %q is named but not described", t.Struct)
		}
		f.Types[t.Struct] = made
		for _, field := range made.Fields {
			pending = append(pending, field.Type)
		}
	}
	return f.Types.checkFinite()
}

// checkFinite refuses structs that contain themselves directly: they have no
// value.
func (types Types) checkFinite() error {
	const open, closed = 1, 2
	state := map[string]int{}
	var visit func(name string) error
	visit = func(name string) error {
		if state[name] == open {
			return fmt.Errorf("struct %q contains itself other than by list, map or optional", name)
		}
		if state[name] == closed {
			return nil
		}
		state[name] = open
		for _, field := range types[name].Fields {
			if field.Type.Kind == StructRef {
				if err := visit(field.Type.Struct); err != nil {
					return err
				}
			}
		}
		state[name] = closed
		return nil
	}
	for name := range types {
		if err := visit(name); err != nil {
			return err
		}
	}
	return nil
}

func typesFromTree(tree any) (Types, error) {
	types := Types{}
	if tree == nil {
		return types, nil
	}
	object, err := asObject(tree)
	if err != nil {
		return nil, fmt.Errorf("types: %w", err)
	}
	for name, tree := range object {
		members, err := asObject(tree)
		if err != nil {
			return nil, fmt.Errorf("struct %q: %w", name, err)
		}
		if err := checkName("struct name", name); err != nil {
			return nil, err
		}
		fields, err := namedTypes(members, "fields")
		if err != nil {
			return nil, fmt.Errorf("struct %q: %w", name, err)
		}
		types[name] = Struct{Fields: fields}
	}
	return types, nil
}

// namedTypes reads a list of {"name", "type"} objects; names occur once.
func namedTypes(object map[string]any, key string) ([]Field, error) {
	list, err := member[[]any](object, key, true)
	if err != nil {
		return nil, err
	}
	var fields []Field
	seen := map[string]bool{}
	for i, element := range list {
		field, err := namedType(element)
		if err == nil && seen[field.Name] {
			err = fmt.Errorf("the name %q occurs twice", field.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, number %d: %w", key, i+1, err)
		}
		seen[field.Name] = true
		fields = append(fields, field)
	}
	return fields, nil
}

func namedType(tree any) (Field, error) {
	object, err := asObject(tree)
	if err != nil {
		return Field{}, err
	}
	name, err := member[string](object, "name", true)
	if err == nil {
		err = checkText("name", name)
	}
	if err != nil {
		return Field{}, err
	}
	t, err := typeFromTree(object["type"], 0)
	if err != nil {
		return Field{}, fmt.Errorf("%s: %w", name, err)
	}
	return Field{Name: name, Type: t}, nil
}

func typeFromTree(tree any, depth int) (Type, error) {
	if depth > wire.NestingDepthMax {
		return Type{}, fmt.Errorf("a type is nested deeper than %d levels (limit nesting_depth_max, which is fixed)", wire.NestingDepthMax)
	}
	if name, ok := tree.(string); ok {
		if kind := Kind(slices.Index(kindNames[:lastBasic+1], name)); kind != Invalid && kind <= lastBasic {
			return Type{Kind: kind}, nil
		}
		return Type{}, fmt.Errorf("type %q is not known to this version", name)
	}
	object, _ := tree.(map[string]any)
	if list, ok := object["list"]; ok && len(object) == 1 {
		return containerType(List, list, depth)
	}
	if optional, ok := object["optional"]; ok && len(object) == 1 {
		return containerType(Optional, optional, depth)
	}
	if pair, ok := object["map"].([]any); ok && len(object) == 1 && len(pair) == 2 {
		return mapType(pair, depth)
	}
	if name, ok := object["struct"].(string); ok && len(object) == 1 {
		return Type{Kind: StructRef, Struct: name}, nil
	}
	return Type{}, fmt.Errorf("%.80q is not a type", fmt.Sprint(tree))
}

func containerType(kind Kind, element any, depth int) (Type, error) {
	t, err := typeFromTree(element, depth+1)
	return Type{Kind: kind, Element: &t}, err
}

func mapType(pair []any, depth int) (Type, error) {
	key, err := typeFromTree(pair[0], depth+1)
	if err != nil {
		return Type{}, err
	}
	if !key.Kind.IsMapKey() {
		return Type{}, fmt.Errorf("map key type %s is not supported: use string or an integer type", key)
	}
	t, err := containerType(Map, pair[1], depth)
	t.Key = key.Kind
	return t, err
}

func asObject(tree any) (map[string]any, error) {
	if object, ok := tree.(map[string]any); ok {
		return object, nil
	}
	return nil, fmt.Errorf("%.80q came where a map is expected", fmt.Sprint(tree))
}

// member returns a member of the wanted type, and the zero value where it is
// missing or nil and not required.
func member[T any](object map[string]any, key string, required bool) (T, error) {
	value, ok := object[key].(T)
	if !ok && (required || object[key] != nil) {
		return value, fmt.Errorf("member %q is missing or not of type %T", key, value)
	}
	return value, nil
}

// asInt reads an integer of either encoding's tree.
func asInt(tree any) int64 {
	switch value := tree.(type) {
	case int64:
		return value
	case interface{ Int64() (int64, error) }:
		if number, err := value.Int64(); err == nil {
			return number
		}
	}
	return math.MinInt64
}
