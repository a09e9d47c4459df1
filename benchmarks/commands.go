package main

import (
	"os"
	"path/filepath"
	"strings"
)

// said is the argument of the small programs, and what they print.
const said = "value"

// A command is a program that rows run, with its arguments; its output begins with
// expected.
type command struct {
	expected string
	words    []string
	resident string // the program whose resident runs it; "": none does
}

// address is that as the caller reads it.
func (c command) address() string { return "run:" + c.expected + ":" + strings.Join(c.words, " ") }

// saying is a program that prints its argument.
func saying(program string) command { return command{expected: said, words: []string{program, said}} }

// commandNamed returns a command that rows.txt names.
func (t tools) commandNamed(name string) command {
	switch name {
	case "true":
		return command{words: []string{"/bin/true"}}
	case "cobra":
		return command{expected: "<!doctype html>", words: []string{t.built("page"), "html", filepath.Join(t.root, "benchmarks/commands/page.md")}}
	}
	programs := map[string]string{"go": "empty", "go-pool": "empty-pool", "perl": "modules", "python": "framework"}
	if programs[name] == "" {
		panic("rows.txt: there is no command " + name)
	}
	return saying(t.built(programs[name]))
}

// byResident returns a command as the launcher runs it.
func (t tools) byResident(c command) command {
	c.resident = c.words[0]
	c.words = append([]string{filepath.Join(t.root, "build/bin/nearcall-run")}, c.words...)
	return c
}

// residence is where the residents of the group's commands are. Its folder is made for the first.
func (s *scene) residence() residence {
	return residence{s.tools, filepath.Join(s.folder, "residents")}
}

// startResident starts the one whose functions are called.
func (s *scene) startResident() (err error) {
	r := s.residence()
	if s.resident != "" {
		return nil
	}
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return err
	}
	if err := r.ready(); err != nil {
		return err
	}
	s.resident, err = r.address()
	return err
}

// stopResidents ends those that the group's commands have started.
func (s *scene) stopResidents() error {
	if _, err := os.Stat(s.residence().folder); err != nil {
		return nil
	}
	return s.residence().stopAll()
}
