package generate

import (
	"regexp"
	"strings"

	"github.com/nearcall/nearcall/internal/schema"
)

var perlReserved = []string{"new", "client", "with", "begin", "_function", "close", "AUTOLOAD", "BEGIN", "CHECK", "CLONE", "CLONE_SKIP", "DESTROY",
	"DOES", "END", "INIT", "UNITCHECK", "VERSION", "can", "import", "isa", "unimport"}

var perlModulePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*(::[A-Za-z][A-Za-z0-9_]*)*$`)

type perlModule struct {
	Package   string
	Hash      string
	Structs   []perlStruct
	Functions []perlFunction
}

type perlStruct struct {
	Name   string
	Fields []perlField
}

type perlField struct{ Name, Type string }

type perlFunction struct {
	Hash, Description string // what the function is now, quoted
	Name, Quoted      string
	Doc               []string
	Arguments         string
	Results           string
	Types             []perlField
	ResultTypes       string
}

func generatePerl(document *schema.Document, name string) ([]byte, error) {
	if err := checkModule(name, perlModulePattern, "Demo or Shop::Go"); err != nil {
		return nil, err
	}
	module := perlModule{Package: strings.ToUpper(name[:1]) + name[1:], Hash: document.Hash()}
	types := structsOf(document)
	for _, name := range sortedNames(types) {
		made := perlStruct{Name: podText(name)}
		for _, field := range types[name].Fields {
			made.Fields = append(made.Fields, perlField{podText(field.Name), perlType(field.Type)})
		}
		module.Structs = append(module.Structs, made)
	}
	methods := newNamespace(perlReserved...)
	for _, f := range document.Functions {
		module.Functions = append(module.Functions, perlFunctionOf(f, methods.take(f.Name)))
	}
	return fill("perl.tmpl", module)
}

func perlFunctionOf(f *schema.Function, name string) perlFunction {
	made := perlFunction{Name: name, Quoted: perlQuote(f.Name), Doc: podLines(f.Doc), Results: perlResults(f.Results),
		Hash: perlQuote(f.Hash), Description: perlQuote(bareDescription(f))}
	local := newNamespace()
	var arguments, results []string
	for i, param := range f.Params {
		argument := "$" + local.take(param.Name)
		kind := perlType(param.Type)
		if f.Variadic && i == len(f.Params)-1 {
			argument, kind = "@"+argument[1:], kind+", any number of them"
		}
		arguments = append(arguments, argument)
		made.Types = append(made.Types, perlField{argument, kind})
	}
	for _, result := range f.Results {
		results = append(results, perlType(result))
	}
	made.Arguments, made.ResultTypes = strings.Join(arguments, ", "), strings.Join(results, ", ")
	return made
}

func perlResults(results []schema.Type) string {
	switch len(results) {
	case 0:
		return ""
	case 1:
		return "my $result = "
	}
	return "my @results = "
}

// perlType says what Perl has for a type.
func perlType(t schema.Type) string {
	switch t.Kind {
	case schema.List:
		return "reference to an array of " + perlType(*t.Element)
	case schema.Map:
		return "reference to a hash of " + perlType(*t.Element)
	case schema.Optional:
		return perlType(*t.Element) + ", or undef"
	case schema.StructRef:
		return "reference to a hash, " + podText(t.Struct)
	case schema.Time:
		return "time in seconds since 1970"
	case schema.Duration:
		return "duration in seconds"
	case schema.File:
		return "open handle"
	case schema.Connection:
		return "connected socket"
	}
	return t.Kind.String()
}

// perlQuote writes a string in single quotes.
func perlQuote(text string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `'`, `\'`) + "'"
}

// podLines keeps documentation from being taken for POD's own commands.
func podLines(doc string) []string {
	lines := trimmedLines(doc)
	for i, line := range lines {
		lines[i] = podText(line)
	}
	return lines
}

func podText(text string) string {
	text = strings.NewReplacer("<", "E<lt>", ">", "E<gt>").Replace(strings.Map(printable, text))
	if strings.HasPrefix(text, "=") {
		text = "E<61>" + text[1:]
	}
	return text
}
