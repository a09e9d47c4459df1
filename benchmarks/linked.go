package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

const (
	modulePath = "github.com/nearcall/nearcall"
	// A server that does nothing but serve a function.
	minimalServer = "./examples/hello/server"
)

// measureLinked counts what a server pulls in besides the standard library and
// this project.
func (t tools) measureLinked() ([]result.Measure, error) {
	packages, err := t.goList("list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", minimalServer)
	if err != nil {
		return nil, err
	}
	modules, err := t.goList("list", "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all")
	if err != nil {
		return nil, err
	}
	count := float64(len(packages))
	return []result.Measure{
		{Name: "linked_packages_of_others", Value: count, Unit: "packages", Goal: result.AtMost(6).Judged(count)},
		{Name: "required_modules", Value: float64(len(modules)), Unit: strings.Join(modules, ", "), Goal: result.AtMost(2).Judged(float64(len(modules)))},
	}, nil
}

// goList returns the lines of a go command, this project's own packages left out.
func (t tools) goList(args ...string) ([]string, error) {
	command := exec.Command("go", args...)
	command.Dir = t.root
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	var others []string
	for line := range strings.FieldsSeq(string(out)) {
		if line != modulePath && !strings.HasPrefix(line, modulePath+"/") {
			others = append(others, line)
		}
	}
	return others, nil
}
