package schema

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
)

// A GoSignature is the type of a Go function without what is not sent: the leading
// context and the trailing error. The last parameter of a variadic function has the
// type of one further argument.
type GoSignature struct {
	Params, Results []reflect.Type
	Variadic        bool
	TakesContext    bool
	ReturnsError    bool
}

// SignatureOf returns the signature of a type of Go functions.
func SignatureOf(t reflect.Type) (GoSignature, error) {
	if t == nil || t.Kind() != reflect.Func {
		return GoSignature{}, fmt.Errorf("%v is not a function", t)
	}
	signature := GoSignature{Variadic: t.IsVariadic()}
	for i := range t.NumIn() {
		in := t.In(i)
		if i == 0 && in == reflect.TypeFor[context.Context]() {
			signature.TakesContext = true
			continue
		}
		if signature.Variadic && i == t.NumIn()-1 {
			in = in.Elem()
		}
		signature.Params = append(signature.Params, in)
	}
	for i := range t.NumOut() {
		if i == t.NumOut()-1 && t.Out(i) == reflect.TypeFor[error]() {
			signature.ReturnsError = true
			continue
		}
		signature.Results = append(signature.Results, t.Out(i))
	}
	return signature, nil
}

// GoOptions says about a Go function what its type does not.
type GoOptions struct {
	Doc string
	// ParamNames holds a name for each parameter except a leading context. Without
	// names they are called arg1, arg2 and so on.
	ParamNames []string
	Idempotent bool
}

// FromGoFunction describes a Go function. The error says which parameter or
// result is not supported, and why.
func FromGoFunction(name string, signature GoSignature, options GoOptions) (*Function, error) {
	f := &Function{Name: name, Doc: options.Doc, Idempotent: options.Idempotent, Variadic: signature.Variadic}
	if err := CheckFunctionName(name); err != nil {
		return nil, err
	}
	names, err := paramNames(name, len(signature.Params), options.ParamNames)
	if err != nil {
		return nil, err
	}
	b := newTypeBuilder()
	for i, t := range signature.Params {
		made, err := b.build(t, name+"_"+names[i])
		if err != nil {
			return nil, fmt.Errorf("parameter %d (%s) of %s: %w", i+1, names[i], name, err)
		}
		f.Params = append(f.Params, Param{Name: names[i], Type: made})
	}
	for i, t := range signature.Results {
		made, err := b.build(t, name+"_result")
		if err != nil {
			return nil, fmt.Errorf("result %d of %s: %w", i+1, name, err)
		}
		f.Results = append(f.Results, made)
	}
	f.Types = b.types
	f.Raw = f.isRaw()
	f.Hash = f.contentHash()
	return f, f.checkDescribable()
}

// checkDescribable refuses types that are nested so deeply that no reader
// would accept their description.
func (f *Function) checkDescribable() error {
	if err := checkText("documentation", f.Doc); f.Doc != "" && err != nil {
		return fmt.Errorf("function %s: %w", f.Name, err)
	}
	if !f.nestsDeeply() {
		return nil
	}
	if _, err := msgpack.Skip(f.AppendMessagePack(nil), 0); err != nil {
		return fmt.Errorf("the types of %s: %w", f.Name, err)
	}
	return nil
}

// nestingPlain is how many types inside each other every reader accepts.
const nestingPlain = 8

// nestsDeeply reports whether some reader may not accept the description. Around a type it
// nests five levels, and two for each map.
func (f *Function) nestsDeeply() bool {
	const _ = uint(wire.NestingDepthMax - 5 - 2*nestingPlain) // there are as many
	deep := func(t Type) bool {
		level := 0
		for ; t.Element != nil; t = *t.Element {
			level++
		}
		return level > nestingPlain
	}
	for _, made := range f.Types {
		if slices.ContainsFunc(made.Fields, func(field Field) bool { return deep(field.Type) }) {
			return true
		}
	}
	return slices.ContainsFunc(f.Results, deep) || slices.ContainsFunc(f.Params, func(p Param) bool { return deep(p.Type) })
}

func (f *Function) isRaw() bool {
	return !f.Variadic && len(f.Params) == 1 && f.Params[0].Type.Kind == Bytes &&
		len(f.Results) == 1 && f.Results[0].Kind == Bytes
}

func paramNames(function string, count int, given []string) ([]string, error) {
	if len(given) == 0 {
		for i := range count {
			given = append(given, unnamed(i))
		}
		return given, nil
	}
	if len(given) != count {
		return nil, fmt.Errorf("function %s has %d parameters besides its context, but %d names were given", function, count, len(given))
	}
	return given, checkParamNames(function, given)
}

// unnamed returns the name of a parameter that was given none.
func unnamed(index int) string { return fmt.Sprintf("arg%d", index+1) }

func checkParamNames(function string, names []string) error {
	seen := map[string]bool{}
	for i, name := range names {
		if err := checkName("parameter name", name); err != nil {
			return fmt.Errorf("parameter %d of %s: %w", i+1, function, err)
		}
		if seen[name] {
			return fmt.Errorf("function %s has two parameters called %s", function, name)
		}
		seen[name] = true
	}
	return nil
}
