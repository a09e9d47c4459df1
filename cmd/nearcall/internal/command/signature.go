package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/internal/schema"
)

// signature writes a function's parameters and results on one line, as
// "divmod(a int64, b int64) (int64, int64)".
func signature(f *schema.Function) string {
	var parameters []string
	for i, param := range f.Params {
		dots := ""
		if f.Variadic && i == len(f.Params)-1 {
			dots = "..."
		}
		parameters = append(parameters, fmt.Sprintf("%s%s %s", param.Name, dots, param.Type))
	}
	return fmt.Sprintf("%s(%s)%s", f.Name, strings.Join(parameters, ", "), resultsText(f.Results))
}

func resultsText(results []schema.Type) string {
	var types []string
	for _, result := range results {
		types = append(types, result.String())
	}
	switch len(types) {
	case 0:
		return ""
	case 1:
		return " " + types[0]
	}
	return " (" + strings.Join(types, ", ") + ")"
}

// firstSentence is what fits beside a signature.
func firstSentence(doc string) string {
	line, _, _ := strings.Cut(doc, "\n")
	if at := strings.Index(line, ". "); at >= 0 {
		line = line[:at+1]
	}
	return line
}

// description is all that is known of a function, over several lines.
func (s style) description(f *schema.Function) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s%s\n", s.bold(f.Name), strings.TrimPrefix(signature(f), f.Name))
	for line := range strings.SplitSeq(f.Doc, "\n") {
		if line != "" {
			fmt.Fprintf(&text, "    %s\n", line)
		}
	}
	if remarks := remarks(f); remarks != "" {
		fmt.Fprintf(&text, "    %s\n", s.faint(remarks))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Types)) {
		fmt.Fprintf(&text, "\n    %s has the fields\n", s.bold(name))
		writeFields(&text, f.Types[name].Fields)
	}
	return text.String()
}

func remarks(f *schema.Function) string {
	var all []string
	if f.Idempotent {
		all = append(all, "Calling it twice does no harm.")
	}
	if f.Raw {
		all = append(all, "Takes raw bytes.")
	}
	return strings.Join(all, " ")
}

func writeFields(text *strings.Builder, fields []schema.Field) {
	width := 0
	for _, field := range fields {
		width = max(width, len(field.Name))
	}
	for _, field := range fields {
		fmt.Fprintf(text, "        %-*s  %s\n", width, field.Name, field.Type)
	}
}
