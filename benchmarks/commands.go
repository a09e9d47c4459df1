package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// A program that starts anew takes up to a third of a second, and a round wants
	// some of them.
	commandsLength      = 300 * time.Millisecond
	heavyLength         = time.Second
	heavyRounds         = 9
	commandsQuickRounds = 3
	// So many runs in a second leave time to start another process between them.
	pacedCommandsPerSecond = 20
	// said is the argument of the small programs, and what they print.
	said = "value"
	// residentsFolder is where the residents of a group listen, in the group's folder.
	residentsFolder = "residents"
)

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

// run returns the row of a command; resident tells whether the launcher runs it.
func (t tools) run(name string, c command, resident bool) rowPlan {
	if resident {
		c.resident = c.words[0]
		c.words = append([]string{filepath.Join(t.root, "build/bin/nearcall-run")}, c.words...)
	}
	row := plan(name, 0, noServer, byRun, t.c("run"))
	row.command = c
	return row
}

// commands are whole runs of small programs: spawned, and by the launcher from their
// residents.
func (t tools) commands() group {
	return group{name: "commands", quick: true, length: commandsLength, quickRounds: commandsQuickRounds, rows: []rowPlan{
		t.run("run-true", command{words: []string{"/bin/true"}}, false),
		t.run("run-go", saying(t.built("empty")), false),
		t.run("run-go-resident", saying(t.built("empty")), true),
		t.run("run-go-resident-pool", saying(t.built("empty-pool")), true),
	}}
}

// pacedCommands are runs with pauses between them, as somebody at a terminal makes
// them: a pool has started its next process then.
func (t tools) pacedCommands() group {
	g := group{name: "paced-commands", length: heavyLength, rounds: heavyRounds}
	for _, row := range []rowPlan{
		t.run("run-true-paced", command{words: []string{"/bin/true"}}, false),
		t.run("run-go-paced", saying(t.built("empty")), false),
		t.run("run-go-resident-paced", saying(t.built("empty")), true),
		t.run("run-go-resident-pool-paced", saying(t.built("empty-pool")), true),
	} {
		row.perSecond = pacedCommandsPerSecond
		g.rows = append(g.rows, row)
	}
	return g
}

// heavyCommands are whole runs of programs that take long to start.
func (t tools) heavyCommands() group {
	page := command{expected: "<!doctype html>", words: []string{t.built("page"), "html", filepath.Join(t.root, "benchmarks/commands/page.md")}}
	g := group{name: "heavy-commands", length: heavyLength, rounds: heavyRounds}
	for _, program := range []struct {
		name    string
		command command
	}{
		{"cobra", page}, {"perl", saying(t.built("modules"))}, {"python", saying(t.built("framework"))},
	} {
		g.rows = append(g.rows,
			t.run("run-"+program.name, program.command, false),
			t.run("run-"+program.name+"-resident", program.command, true))
	}
	return g
}

// residents gives the commands of a group a place for their residents.
func (s *scene) residents() (environment string, err error) {
	folder := filepath.Join(s.folder, residentsFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	return "XDG_RUNTIME_DIR=" + folder, nil
}

// residentCalls are calls of a resident's functions, beside those of a server that is
// in a session of its own as a resident is.
func (t tools) residentCalls() group {
	g := t.both("resident")
	for i := range g.rows {
		g.rows[i].server = sessionServer
	}
	for _, row := range []struct {
		name string
		by   route
	}{{"resident-c-shm", byMemory}, {"resident-c-socket", bySocket}} {
		g.rows = append(g.rows, plan(row.name, smallBytes, residentServer, row.by, t.c("raw")))
	}
	return g
}

// startResident starts the one whose functions are called.
func (s *scene) startResident() (err error) {
	if s.resident != "" {
		return nil
	}
	if _, err := s.residents(); err != nil {
		return err
	}
	r := &residence{s.tools, filepath.Join(s.folder, residentsFolder)}
	if err := r.ready(); err != nil {
		return err
	}
	s.resident, err = r.address()
	return err
}

// stopResidents ends those that the group's commands have started.
func (s *scene) stopResidents() error {
	folder := filepath.Join(s.folder, residentsFolder)
	if _, err := os.Stat(folder); err != nil {
		return nil
	}
	return stopResidents(s.root, append(os.Environ(), "XDG_RUNTIME_DIR="+folder))
}

func stopResidents(root string, environment []string) error {
	stop := exec.Command(filepath.Join(root, "build/bin/nearcall"), "resident", "stop")
	stop.Env = environment
	if text, err := stop.CombinedOutput(); err != nil {
		return fmt.Errorf("stopping residents: %w: %s", err, text)
	}
	return nil
}
