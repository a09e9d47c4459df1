package generate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/internal/schema"
)

var cReserved = []string{"auto", "bool", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
	"extern", "false", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short",
	"signed", "sizeof", "static", "struct", "switch", "true", "typedef", "union", "unsigned", "void", "volatile", "while",
	"asm", "typeof", "client", "timeout_ms", "ret", "function", "reply", "reader", "sendings", "several", "r", "i", "class", "new", "this",
	"template", "namespace", "private", "public", "operator", "delete", "catch", "try", "throw", "and", "or", "not", "xor",
	// Macros of headers and of compilers.
	"errno", "assert", "offsetof", "alloca", "strdupa", "strndupa", "linux", "unix", "i386", "NULL", "EOF", "RAND_MAX"}

type cModule struct {
	Prefix, Guard, Hash string
	Integers            []cInteger
	Structs             []cStruct
	Containers          []cContainer
	Functions           []cFunction
}

// A cInteger is an integer kind, duration included.
type cInteger struct{ Name, Type, Put, Read, Wide, Range string }

func cIntegers() []cInteger {
	var all []cInteger
	for _, kind := range []schema.Kind{schema.Int8, schema.Int16, schema.Int32, schema.Int64, schema.Duration} {
		bits := kind.Bits()
		if kind == schema.Duration {
			bits = 64
		}
		all = append(all, cInteger{kind.String(), fmt.Sprintf("int%d_t", bits), "nearcall_put_int", "signed", "int64_t",
			fmt.Sprintf("INT%d_MIN, INT%d_MAX", bits, bits)})
	}
	for _, kind := range []schema.Kind{schema.Uint8, schema.Uint16, schema.Uint32, schema.Uint64} {
		all = append(all, cInteger{kind.String(), kind.String() + "_t", "nearcall_put_uint", "unsigned", "uint64_t",
			fmt.Sprintf("UINT%d_MAX", kind.Bits())})
	}
	return all
}

// notOfTemplate changes the name of a struct for which the template would have two functions: its
// own functions that put and read values are named after the basic types.
func notOfTemplate(name string, integers []cInteger) string {
	others := []string{"signed", "unsigned", "bool", "float32", "float64", "string"}
	if slices.Contains(others, name) || slices.ContainsFunc(integers, func(i cInteger) bool { return i.Name == name }) {
		return name + "_"
	}
	return name
}

type cStruct struct {
	Type, Suffix string
	Fields       []cField
}

type cField struct{ Name, Wire, WireBytes, Type, Suffix string }

// A cContainer is a list, map or optional. Its element is behind a pointer, or
// for optionals that are no struct within it.
type cContainer struct {
	IsList, IsMap, IsOptional, Behind bool
	Type, Suffix, Text                string
	Element, ElementSuffix            string
	Key, KeySuffix                    string
}

type cFunction struct {
	Hash, Description     string // what the function is now, quoted
	Name, Wire, WireBytes string
	Doc                   []string
	Params                string
	Raw                   string // the argument of a raw function
	Count                 string
	Puts                  []string
	Results               []cResult
}

type cResult struct{ Name, Suffix string }

// A cWriter gives every type its C type, and collects the containers in an
// order in which C can define them.
type cWriter struct {
	prefix     string
	global     *namespace
	structs    map[string]string
	containers map[string]string // by the schema's words for the type
	module     *cModule
}

func generateC(document *schema.Document, name string) ([]byte, error) {
	if err := checkModule(name, modulePattern, "demo"); err != nil {
		return nil, err
	}
	prefix := strings.ToLower(name)
	module := &cModule{Prefix: prefix, Guard: strings.ToUpper(prefix) + "_H", Hash: document.Hash(), Integers: cIntegers()}
	w := &cWriter{prefix: prefix, module: module, structs: map[string]string{}, containers: map[string]string{},
		global: newNamespace("text", "bytes", "time", "file", "any", "text_of", "SCHEMA_HASH", "COMPARES", "GOES_ON")}
	types := structsOf(document)
	for _, name := range sortedNames(types) {
		w.structs[name] = w.global.take(notOfTemplate(name, module.Integers))
	}
	defined := map[string]bool{}
	for _, name := range sortedNames(types) {
		w.define(name, types, defined)
	}
	for _, f := range document.Functions {
		for _, param := range f.Params {
			w.suffix(param.Type)
		}
		for _, result := range f.Results {
			w.suffix(result)
		}
	}
	for _, f := range document.Functions {
		module.Functions = append(module.Functions, w.function(f, w.global.take(f.Name)))
	}
	return fill("c.tmpl", module)
}

// define adds a struct after those that lie within it.
func (w *cWriter) define(name string, types schema.Types, defined map[string]bool) {
	if defined[name] {
		return
	}
	defined[name] = true
	made := cStruct{Type: w.prefix + "_" + w.structs[name], Suffix: w.structs[name]}
	local := newNamespace(cReserved...)
	for _, field := range types[name].Fields {
		if field.Type.Kind == schema.StructRef {
			w.define(field.Type.Struct, types, defined)
		}
		made.Fields = append(made.Fields, cField{Name: local.take(field.Name), Wire: cQuote(field.Name),
			WireBytes: fmt.Sprint(len(field.Name)), Type: w.typeOf(field.Type), Suffix: w.suffix(field.Type)})
	}
	w.module.Structs = append(w.module.Structs, made)
}

// suffix names a type within the names of functions.
func (w *cWriter) suffix(t schema.Type) string {
	switch t.Kind {
	case schema.StructRef:
		return w.structs[t.Struct]
	case schema.List, schema.Map, schema.Optional:
		return w.container(t)
	case schema.File, schema.Connection:
		return schema.File.String()
	}
	return t.Kind.String()
}

func (w *cWriter) container(t schema.Type) string {
	if known, ok := w.containers[t.String()]; ok {
		return known
	}
	made := cContainer{IsList: t.Kind == schema.List, IsMap: t.Kind == schema.Map, IsOptional: t.Kind == schema.Optional,
		Text: t.String(), Element: w.typeOf(*t.Element), ElementSuffix: w.suffix(*t.Element)}
	made.Behind = !made.IsOptional || t.Element.Kind == schema.StructRef
	wanted := map[schema.Kind]string{schema.List: "list_of_", schema.Optional: "optional_"}[t.Kind] + made.ElementSuffix
	if made.IsMap {
		key := schema.Type{Kind: t.Key}
		made.Key, made.KeySuffix = w.typeOf(key), w.suffix(key)
		wanted = "map_of_" + made.KeySuffix + "_to_" + made.ElementSuffix
	}
	made.Suffix = w.global.take(wanted)
	made.Type = w.prefix + "_" + made.Suffix
	w.containers[t.String()] = made.Suffix
	w.module.Containers = append(w.module.Containers, made)
	return made.Suffix
}

func (w *cWriter) typeOf(t schema.Type) string {
	switch {
	case t.Kind.IsSigned() || t.Kind.IsUnsigned():
		return t.Kind.String() + "_t"
	}
	switch t.Kind {
	case schema.Bool:
		return "bool"
	case schema.Float32:
		return "float"
	case schema.Float64:
		return "double"
	case schema.Duration:
		return "int64_t"
	case schema.String:
		return w.prefix + "_text"
	case schema.Bytes, schema.Time, schema.Any:
		return w.prefix + "_" + t.Kind.String()
	}
	return w.prefix + "_" + w.suffix(t)
}

func (w *cWriter) function(f *schema.Function, name string) cFunction {
	made := cFunction{Name: w.prefix + "_" + name, Wire: cQuote(f.Name), WireBytes: fmt.Sprint(len(f.Name)),
		Doc: cDoc(f), Count: fmt.Sprint(len(f.Params)), Hash: cQuote(f.Hash), Description: cQuote(bareDescription(f))}
	local := newNamespace(cReserved...)
	for i, param := range f.Params {
		name := local.take(noMacro(param.Name))
		if f.Variadic && i == len(f.Params)-1 {
			w.variadic(&made, param, name, i)
			break
		}
		declared, put := w.param(param.Type, name)
		made.Params += ", " + declared
		made.Puts = append(made.Puts, put)
		made.Raw = name
	}
	made.Params += ", int64_t timeout_ms"
	for i, result := range f.Results {
		name := "ret"
		if len(f.Results) > 1 {
			name = fmt.Sprintf("ret_%d", i+1)
		}
		made.Params += fmt.Sprintf(", %s *%s", w.typeOf(result), name)
		made.Results = append(made.Results, cResult{name, w.suffix(result)})
	}
	if !f.Raw {
		made.Raw = ""
	}
	return made
}

// noMacro changes the name of a parameter that a header may have defined as a macro: one without
// small letters. Nobody writes the names of parameters in a call.
func noMacro(name string) string {
	if strings.ToUpper(name) == name {
		return name + "_"
	}
	return name
}

// param declares a parameter and says how it is put into the request.
func (w *cWriter) param(t schema.Type, name string) (declared, put string) {
	switch t.Kind {
	case schema.String:
		return fmt.Sprintf("const char *%s, size_t %s_bytes", name, name),
			fmt.Sprintf("nearcall_put_string(client, %s, %s_bytes);", name, name)
	case schema.Bytes:
		return fmt.Sprintf("const void *%s, size_t %s_bytes", name, name),
			fmt.Sprintf("nearcall_put_bytes(client, %s, %s_bytes);", name, name)
	case schema.File, schema.Connection:
		return "int " + name, fmt.Sprintf("nearcall_put_file(client, %s);", name)
	case schema.Optional:
		return w.pointerParam(*t.Element, name)
	case schema.List, schema.Map, schema.StructRef:
		return w.pointerParam(t, name)
	}
	return fmt.Sprintf("%s %s", w.typeOf(t), name), fmt.Sprintf("%s__put_%s(client, &%s);", w.prefix, w.suffix(t), name)
}

// pointerParam: NULL is no value, which for lists and maps is empty.
func (w *cWriter) pointerParam(t schema.Type, name string) (declared, put string) {
	return fmt.Sprintf("const %s *%s", w.typeOf(t), name),
		fmt.Sprintf("if (%s == NULL)\n        nearcall_put_nil(client);\n    else\n        %s__put_%s(client, %s);",
			name, w.prefix, w.suffix(t), name)
}

func (w *cWriter) variadic(made *cFunction, param schema.Param, name string, before int) {
	made.Params += fmt.Sprintf(", const %s *%s, uint32_t %s_count", w.typeOf(param.Type), name, name)
	made.Puts = append(made.Puts, fmt.Sprintf("for (uint32_t i = 0; i < %s_count; i++)\n        %s__put_%s(client, &%s[i]);",
		name, w.prefix, w.suffix(param.Type), name))
	made.Count = fmt.Sprintf("%d + %s_count", before, name)
}

func cDoc(f *schema.Function) []string {
	lines := trimmedLines(f.Doc)
	if len(lines) == 0 {
		lines = []string{"Calls " + f.Name + "."}
	}
	for i, line := range lines {
		line = strings.ReplaceAll(strings.ReplaceAll(line, "*/", "* /"), "/*", "/ *")
		lines[i] = strings.TrimRight(line, `\`)
	}
	return lines
}

// cQuote writes a string literal; what is not plain ASCII becomes octal.
func cQuote(text string) string {
	var quoted strings.Builder
	quoted.WriteByte('"')
	for i := range len(text) {
		if b := text[i]; b >= ' ' && b < 0x7f && b != '"' && b != '\\' && b != '?' {
			quoted.WriteByte(b)
		} else {
			fmt.Fprintf(&quoted, `\%03o`, b)
		}
	}
	quoted.WriteByte('"')
	return quoted.String()
}
