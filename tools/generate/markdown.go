package main

import "strconv"

func errorsMarkdown(list errorList) string {
	var t text
	t.line("\n## Codes\n\n| number | name | meaning |\n|---:|---|---|")
	for _, c := range list.Codes {
		t.line("| %d | `%s` | %s |", c.Number, c.Name, c.Meaning)
	}
	t.line("\n## Outcomes\n\n| number | name | in words | meaning |\n|---:|---|---|---|")
	for _, o := range list.Outcomes {
		t.line("| %d | `%s` | %s | %s |", o.Number, o.Name, o.Text, o.Meaning)
	}
	t.line("\n## Return codes of libnearcall alone\n\nThey never travel: a frame that carries one is illegal.\n")
	t.line("| number | name | meaning |\n|---:|---|---|")
	for _, c := range list.Local {
		t.line("| %d | `%s` | %s |", c.Number, c.Name, c.Meaning)
	}
	t.line("")
	return t.String()
}

func limitsMarkdown(limits []limit) string {
	var t text
	t.line("\n| limit | default | ceiling | unit | option | what it bounds | why |\n|---|---:|---:|---|---|---|---|")
	for _, l := range limits {
		ceiling := "fixed"
		if l.Maximum != nil {
			ceiling = grouped(*l.Maximum)
		}
		t.line("| `%s` | %s | %s | %s | %s | %s | %s |", l.Name, grouped(l.Default), ceiling, l.Unit, l.Option, l.Meaning, l.Reason)
	}
	t.line("")
	return t.String()
}

// grouped writes 4194304 as 4,194,304.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
