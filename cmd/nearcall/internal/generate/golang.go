package generate

import (
	"fmt"
	"go/format"
	"slices"
	"strconv"
	"strings"

	"github.com/nearcall/nearcall/internal/schema"
)

// The most parameters that package client has a function for.
const goParamsMax = 4

var goReserved = []string{"break", "case", "chan", "const", "continue", "default", "defer", "else", "fallthrough", "for",
	"func", "go", "goto", "if", "import", "interface", "map", "package", "range", "return", "select", "struct", "switch",
	"type", "var", "any", "append", "error", "string", "nil", "context", "time", "os", "net", "client", "status", "ctx", "c", "f", "all", "err", "args", "notFaked"}

type goModule struct {
	Name      string
	Hash      string
	UsesTime  bool
	UsesFile  bool
	UsesNet   bool
	Structs   []goStruct
	Functions []goFunction
}

type goStruct struct {
	Name   string
	Fields []goField
}

type goField struct{ Name, Type, Tag string }

type goFunction struct {
	Name   string // the server's, quoted
	Method string
	Doc    []string
	// Field holds the function of package client; a raw one has none.
	Field, FieldType, Constructor string
	// FakeField is what the method of the fake calls with Arguments; without it that begins
	// with Unset.
	FakeField, Arguments string
	Unset                []string
	// Description is what the function is now, quoted.
	Description     string
	Params, Returns string
	Body            []string
}

// A goWriter knows the names of the structs.
type goWriter struct {
	structs  map[string]string
	usesTime bool
	usesFile bool
	usesNet  bool
}

func generateGo(document *schema.Document, name string) ([]byte, error) {
	if err := checkModule(name, modulePattern, "demo"); err != nil {
		return nil, err
	}
	w := &goWriter{structs: map[string]string{}}
	module := goModule{Name: strings.ToLower(name), Hash: document.Hash()}
	types, global := structsOf(document), newNamespace("Client", "New", "SchemaHash", "Functions", "Fake")
	for _, name := range sortedNames(types) {
		w.structs[name] = global.take(camel(name))
	}
	for _, name := range sortedNames(types) {
		module.Structs = append(module.Structs, w.structOf(name, types[name]))
	}
	methods := newNamespace()
	for _, f := range document.Functions {
		module.Functions = append(module.Functions, w.function(f, methods.take(camel(f.Name))))
	}
	for i := range module.Functions {
		module.Functions[i].FakeField = methods.take(module.Functions[i].Method + "Func")
	}
	module.UsesTime, module.UsesFile, module.UsesNet = w.usesTime, w.usesFile, w.usesNet
	text, err := fill("go.tmpl", module)
	if err != nil {
		return nil, err
	}
	return format.Source(text)
}

func (w *goWriter) structOf(name string, s schema.Struct) goStruct {
	made, fields := goStruct{Name: w.structs[name]}, newNamespace()
	for _, field := range s.Fields {
		made.Fields = append(made.Fields, goField{fields.take(camel(field.Name)), w.typeOf(field.Type), goTag(field.Name)})
	}
	return made
}

// goTag writes the tag that names a field on the wire.
func goTag(name string) string {
	tag := fmt.Sprintf("nearcall:%q", name)
	if strconv.CanBackquote(tag) {
		return "`" + tag + "`"
	}
	return strconv.Quote(tag)
}

func (w *goWriter) typeOf(t schema.Type) string {
	switch t.Kind {
	case schema.Bytes:
		return "[]byte"
	case schema.Time:
		w.usesTime = true
		return "time.Time"
	case schema.Duration:
		w.usesTime = true
		return "time.Duration"
	case schema.File:
		w.usesFile = true
		return "*os.File"
	case schema.Connection:
		w.usesNet = true
		return "*net.TCPConn"
	case schema.List:
		return "[]" + w.typeOf(*t.Element)
	case schema.Map:
		return "map[" + t.Key.String() + "]" + w.typeOf(*t.Element)
	case schema.Optional:
		return "*" + w.typeOf(*t.Element)
	case schema.StructRef:
		return w.structs[t.Struct]
	}
	return t.Kind.String()
}

func (w *goWriter) function(f *schema.Function, method string) goFunction {
	made := goFunction{Name: fmt.Sprintf("%q", f.Name), Method: method, Doc: goDoc(f, method), Description: goDescription(f)}
	names, types := w.params(f)
	made.Params, made.Returns = joinPairs(names, types, f.Variadic), w.returns(f)
	made.Arguments, made.Unset = joinArguments(names, f.Variadic), w.unset(f)
	switch {
	case f.Raw:
		made.Body = []string{fmt.Sprintf("return c.client.CallRaw(ctx, %s, %s, nil)", made.Name, names[0])}
	case f.Variadic || len(f.Params) > goParamsMax:
		w.useDynamicField(&made, f, names)
	default:
		w.useField(&made, f, names, types)
	}
	return made
}

// goDescription is the description without its documentation, as a Go literal.
func goDescription(f *schema.Function) string {
	text := bareDescription(f)
	if strconv.CanBackquote(text) {
		return "`" + text + "`"
	}
	return strconv.Quote(text)
}

func goDoc(f *schema.Function, method string) []string {
	doc := trimmedLines(f.Doc)
	if len(doc) == 0 {
		doc = []string{"Calls " + f.Name + "."}
	}
	doc[0] = method + ": " + doc[0]
	return doc
}

func (w *goWriter) params(f *schema.Function) (names, types []string) {
	local := newNamespace(slices.Concat(goReserved, noneNames(len(f.Results)))...)
	for _, param := range f.Params {
		names = append(names, local.take(lowerCamel(param.Name)))
		types = append(types, w.typeOf(param.Type))
	}
	return names, types
}

func joinPairs(names, types []string, variadic bool) string {
	var all strings.Builder
	for i := range names {
		dots := ""
		if variadic && i == len(names)-1 {
			dots = "..."
		}
		fmt.Fprintf(&all, ", %s %s%s", names[i], dots, types[i])
	}
	return all.String()
}

// joinArguments passes parameters on.
func joinArguments(names []string, variadic bool) string {
	all := strings.Join(append([]string{"ctx"}, names...), ", ")
	if variadic {
		all += "..."
	}
	return all
}

// noneNames are what a fake's method returns that has no function.
func noneNames(results int) (names []string) {
	for i := range results {
		names = append(names, fmt.Sprintf("none%d", i+1))
	}
	return names
}

// unset is the body of a fake's method for which there is no function.
func (w *goWriter) unset(f *schema.Function) []string {
	var lines, values []string
	names := noneNames(len(f.Results))
	for i, of := range w.results(f) {
		name := names[i]
		lines, values = append(lines, "var "+name+" "+of), append(values, name)
	}
	return append(lines, fmt.Sprintf("return %s", strings.Join(append(values, fmt.Sprintf("notFaked(%q)", f.Name)), ", ")))
}

func (w *goWriter) results(f *schema.Function) []string {
	var types []string
	for _, result := range f.Results {
		types = append(types, w.typeOf(result))
	}
	return types
}

func (w *goWriter) returns(f *schema.Function) string {
	types := w.results(f)
	if len(types) == 0 {
		return "error"
	}
	return "(" + strings.Join(append(types, "error"), ", ") + ")"
}

// resultType is the type that package client decodes into: for several results a struct
// with a field for each.
func (w *goWriter) resultType(f *schema.Function) string {
	types := w.results(f)
	switch len(types) {
	case 0:
		return "client.None"
	case 1:
		return types[0]
	}
	fields := make([]string, len(types))
	for i, of := range types {
		fields[i] = goResultField(i) + " " + of
	}
	return "struct{ " + strings.Join(fields, "; ") + " }"
}

func goResultField(index int) string { return fmt.Sprintf("R%d", index+1) }

// useField makes the method use a function of package client, which costs no
// allocation.
func (w *goWriter) useField(made *goFunction, f *schema.Function, names, types []string) {
	result := w.resultType(f)
	made.Field = "call" + made.Method
	made.FieldType = fmt.Sprintf("func(%s) (%s, error)", strings.Join(append([]string{"context.Context"}, types...), ", "), result)
	made.Constructor = fmt.Sprintf("client.Func%d[%s](c, %s, client.GeneratedFrom(%s))", len(types), strings.Join(append(types, result), ", "), made.Name, made.Description)
	call := fmt.Sprintf("c.%s(%s)", made.Field, strings.Join(append([]string{"ctx"}, names...), ", "))
	made.Body = goReturn(len(f.Results), call)
}

// goReturn takes the result of a call apart.
func goReturn(results int, call string) []string {
	switch results {
	case 0:
		return []string{"_, err := " + call, "return err"}
	case 1:
		return []string{"return " + call}
	}
	var parts []string
	for i := range results {
		parts = append(parts, "all."+goResultField(i))
	}
	return []string{"all, err := " + call, "return " + strings.Join(append(parts, "err"), ", ")}
}

// useDynamicField is useField for functions that take any number of arguments, or
// more than package client has types for.
func (w *goWriter) useDynamicField(made *goFunction, f *schema.Function, names []string) {
	result := w.resultType(f)
	made.Field = "call" + made.Method
	made.FieldType = fmt.Sprintf("func(context.Context, ...any) (%s, error)", result)
	made.Constructor = fmt.Sprintf("client.FuncN[%s](c, %s, client.GeneratedFrom(%s))", result, made.Name, made.Description)
	fixed := names
	if f.Variadic {
		fixed = names[:len(names)-1]
	}
	made.Body = []string{fmt.Sprintf("args := []any{%s}", strings.Join(fixed, ", "))}
	if f.Variadic {
		made.Body = append(made.Body, fmt.Sprintf("for _, value := range %s {", names[len(names)-1]), "args = append(args, value)", "}")
	}
	made.Body = append(made.Body, goReturn(len(f.Results), fmt.Sprintf("c.%s(ctx, args...)", made.Field))...)
}
