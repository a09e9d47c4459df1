package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// A company is who else has the machine while a group is measured.
type company struct {
	name    string
	command func(tools) []string
	// mayBeForbidden is whether it wants what not every user may; it ends with noPermission
	// then.
	mayBeForbidden bool
}

// noPermission is EX_NOPERM of sysexits.h.
const noPermission = 77

// The ways in which a machine is not one's own.
var (
	// playedHost is a hypervisor that takes each CPU away for a while, a tenth of the time.
	playedHost = &company{
		name:           "each CPU taken for 0.2 to 5 ms at random, a tenth of the time",
		command:        func(t tools) []string { return []string{t.built("played_host")} },
		mayBeForbidden: true,
	}
	// neighbour is a program that computes, and never ends by itself.
	neighbour = &company{
		name:    "a program that burns one CPU",
		command: func(tools) []string { return []string{"sh", "-c", "echo ready; while :; do :; done"} },
	}
)

// start starts it. It fails with errNotHere where this user may not.
func (c *company) start(t tools) (*process.Process, error) {
	command := c.command(t)
	p, err := process.StartUnready(command...)
	if err != nil {
		return nil, err
	}
	if err = p.AwaitReady(); err == nil {
		return p, nil
	}
	p.Stop()
	err = fmt.Errorf("%s: %w%s", c.name, err, p.Complaints())
	if c.mayBeForbidden && p.ExitCode() == noPermission {
		err = errors.Join(errNotHere, err)
	}
	return nil, err
}

// A besideWatch tells how much of the machine a process has from its begin on.
type besideWatch struct {
	beside *process.Process
	began  time.Time
	before time.Duration
}

// watchBeside begins to watch; nil is nobody.
func watchBeside(p *process.Process) (besideWatch, error) {
	w := besideWatch{beside: p, began: time.Now()}
	var err error
	w.before, err = cpuOf(p)
	return w, err
}

// share is how many CPUs it had all the time, or as if.
func (w besideWatch) share() (float64, error) {
	used, err := cpuOf(w.beside)
	return (used - w.before).Seconds() / time.Since(w.began).Seconds(), err
}
