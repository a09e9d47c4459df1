package generate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nearcall/nearcall/internal/schema"
)

var pythonReserved = []string{"False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
	"def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda",
	"nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield", "self", "timeout", "result",
	"int", "str", "bytes", "float", "bool", "list", "dict", "tuple", "super", "isinstance", "datetime", "nearcall",
	"os", "generated", "socket", "property", "Any", "BinaryIO", "Iterable", "Mapping", "Protocol", "Self", "SupportsIndex",
	"TracebackType", "TypeAlias", "TypedDict"}

type pythonModule struct {
	Class     string
	Hash      string
	Uses      map[string]bool // names that are imported
	Structs   []pythonStruct
	Functions []pythonFunction
}

// A pythonStruct has the class syntax where all its fields are identifiers.
type pythonStruct struct {
	pythonNames
	IsClass    bool
	Fields     []pythonField
	Attributes []pythonField // those an object has to have; none where no object can, or every one would
}

// pythonNames are those of a struct: with what may be left out, as it is returned, as an
// object with the fields as attributes, and all that an argument of it may be.
type pythonNames struct{ Name, Result, Object, Argument string }

type pythonField struct{ Name, Quoted, Type, ResultType string }

type pythonFunction struct {
	Description     string // what the function is now, quoted
	Name, Quoted    string
	Doc             []string
	Params, Forward string
	Returns         string
}

type pythonWriter struct {
	structs map[string]pythonNames
	uses    map[string]bool
}

func generatePython(document *schema.Document, name string) ([]byte, error) {
	if err := checkModule(name, modulePattern, "demo"); err != nil {
		return nil, err
	}
	class := camel(name)
	w := &pythonWriter{structs: map[string]pythonNames{}, uses: map[string]bool{}}
	types := structsOf(document)
	global := newNamespace(append(pythonReserved, class, "Async"+class, "SCHEMA_HASH")...)
	for _, name := range sortedNames(types) {
		taken := global.take(name)
		w.structs[name] = pythonNames{taken, global.take(taken + "Result"), global.take(taken + "Object"), global.take(taken + "Argument")}
	}
	module := pythonModule{Class: class, Hash: document.Hash(), Uses: w.uses}
	for _, name := range sortedNames(types) {
		module.Structs = append(module.Structs, w.structOf(name, types[name]))
	}
	methods := newNamespace(append(pythonReserved, "client", "close", "_functions")...)
	for _, f := range document.Functions {
		module.Functions = append(module.Functions, w.function(f, methods.take(publicPython(f.Name))))
	}
	return fill("python.tmpl", module)
}

// publicPython keeps names from being private or special.
func publicPython(name string) string { return strings.TrimLeft(identifier(name), "_") }

func (w *pythonWriter) structOf(name string, s schema.Struct) pythonStruct {
	made := pythonStruct{pythonNames: w.structs[name], IsClass: true}
	check := newNamespace(pythonReserved...)
	for _, field := range s.Fields {
		made.IsClass = made.IsClass && check.take(field.Name) == field.Name && !strings.HasPrefix(field.Name, "__")
		f := pythonField{field.Name, strconv.QuoteToASCII(field.Name), w.argumentType(field.Type), w.typeOf(field.Type)}
		made.Fields = append(made.Fields, f)
		if field.Type.Kind != schema.Optional {
			made.Attributes = append(made.Attributes, f)
		}
	}
	if !made.IsClass {
		made.Attributes = nil
	}
	if len(made.Attributes) > 0 {
		w.use("Protocol")
	}
	return made
}

// argumentType is what may be passed for a type, which is more than what is returned.
// What is looser than what the runtime takes, checkers cannot tell (docs/guides/python.md).
func (w *pythonWriter) argumentType(t schema.Type) string {
	switch {
	case t.Kind.IsSigned() || t.Kind.IsUnsigned():
		return w.use("SupportsIndex")
	case t.Kind.Bits() > 0:
		return "generated.Real"
	}
	switch t.Kind {
	case schema.Bool:
		return "generated.Truth"
	case schema.Bytes:
		return "generated.Data"
	case schema.Duration:
		return "generated.Duration"
	case schema.File, schema.Connection:
		return "generated.Opened"
	case schema.List:
		return w.use("Iterable") + "[" + w.argumentType(*t.Element) + "]"
	case schema.Map:
		return w.use("Mapping") + "[" + w.typeOf(schema.Type{Kind: t.Key}) + ", " + w.argumentType(*t.Element) + "]"
	case schema.Optional:
		return w.argumentType(*t.Element) + " | None"
	case schema.StructRef:
		return w.structs[t.Struct].Argument
	}
	return w.typeOf(t)
}

// use has a name imported.
func (w *pythonWriter) use(name string) string {
	w.uses[name] = true
	return name
}

// typeOf is what is returned for a type.
func (w *pythonWriter) typeOf(t schema.Type) string {
	switch {
	case t.Kind.IsSigned() || t.Kind.IsUnsigned():
		return "int"
	case t.Kind.Bits() > 0:
		return "float"
	}
	switch t.Kind {
	case schema.Bool:
		return "bool"
	case schema.String:
		return "str"
	case schema.Bytes:
		return "bytes"
	case schema.Time:
		return w.use("datetime") + ".datetime"
	case schema.Duration:
		return w.use("datetime") + ".timedelta"
	case schema.File:
		return w.use("BinaryIO")
	case schema.Connection:
		return w.use("socket") + ".socket"
	case schema.List:
		return "list[" + w.typeOf(*t.Element) + "]"
	case schema.Map:
		return "dict[" + w.typeOf(schema.Type{Kind: t.Key}) + ", " + w.typeOf(*t.Element) + "]"
	case schema.Optional:
		return w.typeOf(*t.Element) + " | None"
	case schema.StructRef:
		return w.structs[t.Struct].Result
	}
	return "Any"
}

func (w *pythonWriter) function(f *schema.Function, name string) pythonFunction {
	made := pythonFunction{Name: name, Quoted: strconv.QuoteToASCII(f.Name), Doc: pythonDoc(f), Returns: w.returns(f),
		Description: strconv.QuoteToASCII(bareDescription(f))}
	local := newNamespace(pythonReserved...)
	optionalFrom := len(f.Params)
	for optionalFrom > 0 && !f.Variadic && f.Params[optionalFrom-1].Type.Kind == schema.Optional {
		optionalFrom--
	}
	for i, param := range f.Params {
		star, value := "", ""
		if f.Variadic && i == len(f.Params)-1 {
			star = "*"
		} else if i >= optionalFrom {
			value = " = None"
		}
		name := local.take(param.Name)
		made.Params += fmt.Sprintf(", %s%s: %s%s", star, name, w.argumentType(param.Type), value)
		made.Forward += fmt.Sprintf(", %s%s", star, name)
	}
	if !f.Variadic {
		made.Params += ", *"
	}
	return made
}

func (w *pythonWriter) returns(f *schema.Function) string {
	var types []string
	for _, result := range f.Results {
		types = append(types, w.typeOf(result))
	}
	switch len(types) {
	case 0:
		return "None"
	case 1:
		return types[0]
	}
	return "tuple[" + strings.Join(types, ", ") + "]"
}

// pythonDoc escapes what would end a string of three quotes.
func pythonDoc(f *schema.Function) []string {
	lines := trimmedLines(f.Doc)
	if len(lines) == 0 {
		lines = []string{"Calls " + f.Name + "."}
	}
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(strings.ReplaceAll(line, `\`, `\\`), `"`, `\"`)
	}
	return lines
}
