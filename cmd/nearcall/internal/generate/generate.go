// Package generate writes typed stubs for other languages from a schema. A
// language is a template in templates/ and a Go file that prepares what the
// template fills in.
//
// Names and documentation come from a server and are not trusted: identifiers
// are made of them, texts are quoted, and comments cannot be left.
package generate

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"github.com/nearcall/nearcall/internal/schema"
)

//go:embed templates
var templates embed.FS

// languages are the languages that stubs can be generated for.
var languages = map[string]func(*schema.Document, string) ([]byte, error){
	"c":      generateC,
	"go":     generateGo,
	"perl":   generatePerl,
	"python": generatePython,
}

// Languages returns the names of the languages.
func Languages() []string { return slices.Sorted(maps.Keys(languages)) }

// Generate returns the module for a language; name is what it is called.
func Generate(language string, document *schema.Document, name string) ([]byte, error) {
	generate, ok := languages[language]
	if !ok {
		return nil, fmt.Errorf("unknown language %q: %s are known", language, strings.Join(Languages(), ", "))
	}
	return generate(document, name)
}

// fill executes a template.
func fill(name string, data any) ([]byte, error) {
	parsed, err := template.ParseFS(templates, "templates/"+name)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = parsed.Execute(&text, data)
	return text.Bytes(), err
}

// bareDescription is what stubs are compared by: the description without its documentation.
func bareDescription(f *schema.Function) string {
	bare := *f
	bare.Doc = ""
	return string(bare.JSON())
}

// structsOf returns all structs of a document by name.
func structsOf(document *schema.Document) schema.Types {
	all := schema.Types{}
	for _, f := range document.Functions {
		maps.Copy(all, f.Types)
	}
	return all
}

func sortedNames(types schema.Types) []string { return slices.Sorted(maps.Keys(types)) }

// trimmedLines splits documentation into lines without trailing space.
func trimmedLines(doc string) []string {
	if strings.TrimSpace(doc) == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(doc), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.Map(printable, line), " ")
	}
	return lines
}

// printable keeps control characters out of generated files.
func printable(r rune) rune {
	if r < ' ' && r != '\t' || r == 0x7f || r == '\u2028' || r == '\u2029' {
		return ' '
	}
	return r
}
