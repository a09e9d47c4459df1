package main

import (
	"fmt"
	"slices"
	"strings"
)

// launcherLimits are those of resident commands and of listening: the launcher is built without
// libnearcall.
func launcherLimits(limits []limit) []limit {
	var chosen []limit
	for _, l := range limits {
		if strings.HasPrefix(l.Name, "resident_") || l.Name == "listen_backlog" {
			chosen = append(chosen, l)
		}
	}
	return chosen
}

// bindingLimits are those that a binding keeps to where libnearcall has no part: before that
// sees a value, and in adapters of servers. Its other limits it learns from there.
func bindingLimits(limits []limit) []limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l limit) bool {
		return !slices.Contains([]string{"attempts_max", "call_timeout_ms", "client_unsent_bytes_max", "frame_bytes_max", "function_name_bytes_max", "handoff_back_ms", "handoff_rest_ms", "nesting_depth_max", "signal_look_ms", "value_bytes_max"}, l.Name)
	})
}

func limitsHeader(limits []limit) string {
	var t text
	t.line("/* %s */\n#ifndef NC_LIMITS_GEN_H\n#define NC_LIMITS_GEN_H\n", marker("limits.json"))
	t.line("/* The limits of spec/limits.md. A name that ends in _CEILING is the most that an")
	t.line(" * option may raise the limit to; a limit without one is fixed. */")
	for _, l := range limits {
		name := "NC_" + strings.ToUpper(l.Name)
		t.line("\n/* %s: %s. */", l.Unit, l.Meaning)
		t.line("#define %s %d", name, l.Default)
		if l.Maximum != nil {
			t.line("#define %s_CEILING %d", name, *l.Maximum)
		}
	}
	t.line("\n#endif")
	return t.String()
}

// enumerator is one line of a public enum.
type enumerator struct {
	name    string
	number  int
	meaning string
}

func publicEnums(list errorList) string {
	codes := []enumerator{}
	for _, c := range list.Codes {
		codes = append(codes, publicCode(c))
	}
	for _, c := range list.Local {
		c.Meaning = "never on the wire: " + c.Meaning
		codes = append(codes, publicCode(c))
	}
	var outcomes []enumerator
	for _, o := range list.Outcomes {
		outcomes = append(outcomes, enumerator{"NEARCALL_OUTCOME_" + o.Name, o.Number, o.Meaning})
	}
	var t text
	t.line("/* What functions return: 0, or the code's number made negative. */")
	publicEnum(&t, codes)
	t.line("\n/* Whether the function of a failed call ran. */")
	publicEnum(&t, outcomes)
	return t.String()
}

func publicCode(c code) enumerator {
	if c.Number == 0 {
		return enumerator{"NEARCALL_" + c.Name, 0, c.Meaning}
	}
	return enumerator{"NEARCALL_E_" + c.Name, -c.Number, c.Meaning}
}

// publicEnum leaves out the last comma: C++98 and C90 refuse it.
func publicEnum(t *text, enumerators []enumerator) {
	t.line("enum {")
	assignment := func(e enumerator) string { return fmt.Sprintf("%s = %d,", e.name, e.number) }
	width := widest(enumerators, assignment)
	for i, e := range enumerators {
		entry := assignment(e)
		if i == len(enumerators)-1 {
			entry = strings.TrimSuffix(entry, ",")
		}
		t.line("    %-*s /* %s */", width, entry, e.meaning)
	}
	t.line("};")
}

func errorsHeader() string {
	return fmt.Sprintf(`/* %s */
#ifndef NC_ERRORS_GEN_H
#define NC_ERRORS_GEN_H

/* A code's name, as "DEADLINE_EXCEEDED". Takes the positive code or the negative
 * return value; "UNKNOWN" for any other number. Never NULL. */
const char *nc_code_name(int code);

/* What a code means, in words. The same numbers; never NULL. */
const char *nc_code_meaning(int code);

/* The words for an outcome, as "not executed"; "unknown" for a number that is
 * no outcome. Never NULL. */
const char *nc_outcome_text(int outcome);

#endif
`, marker("errors.json"))
}

func errorsTables(list errorList) string {
	var t text
	t.line("/* %s */\n#include \"base/errors_gen.h\"\n\n#include <stddef.h>\n", marker("errors.json"))
	t.line("struct entry {\n    int number;\n    const char *name;\n    const char *meaning;\n};\n")
	t.line("static const struct entry codes[] = {")
	for _, c := range append(list.Codes[:len(list.Codes):len(list.Codes)], list.Local...) {
		t.line("    {%d, %q, %q},", c.Number, c.Name, c.Meaning)
	}
	t.line("};\n\nstatic const char *const outcome_texts[] = {")
	for _, o := range list.Outcomes {
		t.line("    %q,", o.Text)
	}
	t.line("};")
	t.WriteString(errorsAccessors)
	return t.String()
}

// Compared with both signs instead of negated: INT_MIN has no positive twin.
const errorsAccessors = `
static const struct entry *find(int code)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].number == code || -codes[i].number == code)
            return &codes[i];
    return NULL;
}

const char *nc_code_name(int code)
{
    const struct entry *entry = find(code);
    return entry ? entry->name : "UNKNOWN";
}

const char *nc_code_meaning(int code)
{
    const struct entry *entry = find(code);
    return entry ? entry->meaning : "a code that this version does not know";
}

const char *nc_outcome_text(int outcome)
{
    if (outcome < 0 || (size_t)outcome >= sizeof(outcome_texts) / sizeof(outcome_texts[0]))
        return "unknown";
    return outcome_texts[outcome];
}
`
