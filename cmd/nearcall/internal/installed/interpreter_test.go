package installed

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestInterpreterOf(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	python := filepath.Join(folder, "python3")
	if err := os.WriteFile(python, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	long := "/" + strings.Repeat("long/", 60) + "bin/python3.12"
	for text, want := range map[string][]string{
		"#!/usr/bin/python3\n":           {"/usr/bin/python3"},
		"#! /usr/bin/perl -w \nuse x;\n": {"/usr/bin/perl", "-w"},
		"#!/usr/bin/python3 -sP\n":       {"/usr/bin/python3", "-sP"},
		"#!/usr/bin/perl -w -T\n":        {"/usr/bin/perl", "-w -T"}, // one argument, as the kernel has it
		"#!/usr/bin/env python3\n":       {python},
		"#!/usr/bin/env -S python3 -s\n": {python, "-s"},
		"#!/usr/bin/env -Spython3 -s -B": {python, "-s", "-B"},
		"#!/bin/sh\n'''exec' " + long + ` "$0" "$@"` + "\n' '''\nimport sys\n":     {long},
		"#!/bin/sh\n'''exec' \"" + long + ` a" "$0" "$@"` + "\n' '''\nimport re\n": {long + " a"},
		"#!/bin/sh\necho\n":                {"/bin/sh"},
		"#!/usr/bin/env -i python3\n":      nil,
		"#!/usr/bin/env A=1 python3\n":     nil,
		"#!/usr/bin/env -S A=1 python3\n":  nil,
		"#!/usr/bin/env nowhere-to-find\n": nil,
		"\x7fELF\x02":                      nil,
		"":                                 nil,
	} {
		path := filepath.Join(folder, "program")
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		got, err := interpreterOf(path)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q is run by %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestLanguageOf(t *testing.T) {
	for name, want := range map[string]Language{"/usr/bin/python3": Python, "/a/b/python3.12": Python, "/usr/bin/pypy3": Python, "/usr/bin/perl5.36": Perl, "/bin/sh": ""} {
		if got, err := languageOf([]string{name, "-w"}); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is in %q, %v; want %q", name, got, err, want)
		}
	}
}
