package main

import (
	"fmt"
	"go/format"
)

func goCodes(list errorList) (string, error) {
	var t text
	t.line("// %s\n", marker("errors.json"))
	t.line("package status\n")
	t.line("// What a call ended with. Numbers and names are those of the wire.\nconst (")
	for _, c := range list.Codes {
		t.line("\t// %s: %s.", camelCase(c.Name), c.Meaning)
		t.line("\t%s Code = %d", camelCase(c.Name), c.Number)
	}
	t.line(")\n")
	t.line("// codeNames are the names of the codes in every language, by number.")
	t.line("var codeNames = [...]string{")
	for _, c := range list.Codes {
		t.line("\t%s: %q,", camelCase(c.Name), c.Name)
	}
	t.line("}\n")
	goOutcomes(&t, list.Outcomes)
	return gofmt(t.String())
}

func goOutcomes(t *text, outcomes []outcome) {
	t.line("// Whether the function of a failed call ran.\nconst (")
	for _, o := range outcomes {
		t.line("\t// Outcome%s: %s.", camelCase(o.Name), o.Meaning)
		t.line("\tOutcome%s Outcome = %d", camelCase(o.Name), o.Number)
	}
	t.line(")\n")
	t.line("// outcomeTexts are the words a person reads, by number.")
	t.line("var outcomeTexts = [...]string{")
	for _, o := range outcomes {
		t.line("\tOutcome%s: %q,", camelCase(o.Name), o.Text)
	}
	t.line("}")
}

func goLimits(limits []limit) (string, error) {
	var t text
	t.line("// %s\n", marker("limits.json"))
	t.line("package wire\n")
	t.line("// The limits of spec/limits.md. A name that ends in Ceiling is the most that an")
	t.line("// option may raise the limit to; a limit without one is fixed.\nconst (")
	for i, l := range limits {
		if i > 0 {
			t.line("")
		}
		name := camelCase(l.Name)
		t.wrapped("\t// ", fmt.Sprintf("%s (%s): %s. Why: %s.", name, l.Unit, l.Meaning, l.Reason))
		t.line("\t%s = %d", name, l.Default)
		if l.Maximum != nil {
			t.line("\t%sCeiling = %d", name, *l.Maximum)
		}
	}
	t.line(")")
	return gofmt(t.String())
}

func gofmt(source string) (string, error) {
	formatted, err := format.Source([]byte(source))
	return string(formatted), err
}
