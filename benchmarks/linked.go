package main

import (
	"context"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/result"
)

const (
	modulePath = "github.com/nearcall/nearcall"
	// A server that does nothing but serve a function.
	minimalServer = "./examples/hello/server"
)

// measureLinked counts what a server pulls in besides the standard library and
// this project.
func (t tools) measureLinked(context.Context, string) ([]result.Measure, error) {
	packages, err := t.goList("-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", minimalServer)
	if err != nil {
		return nil, err
	}
	modules, err := t.goList("-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all")
	if err != nil {
		return nil, err
	}
	return []result.Measure{
		atMost(6, "linked_packages_of_others", "packages", float64(len(packages))),
		atMost(2, "required_modules", strings.Join(modules, ", "), float64(len(modules))),
	}, nil
}

// goList returns the lines of go list, this project's own packages left out.
func (t tools) goList(args ...string) ([]string, error) {
	out, err := process.Output(nil, append([]string{"go", "list", "-C", t.root}, args...)...)
	if err != nil {
		return nil, err
	}
	var others []string
	for line := range strings.FieldsSeq(out) {
		if line != modulePath && !strings.HasPrefix(line, modulePath+"/") {
			others = append(others, line)
		}
	}
	return others, nil
}
