// Package residentcheck runs a program plainly and by a resident, each time in the same
// directory as it was before, and compares what it writes, how it ends and which files it
// leaves. The residents are its own, which no other launcher finds, and have ended when it
// returns.
package residentcheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Setting says what is run.
type Setting struct {
	Plain    []string // a command: the program's path, and arguments
	Resident []string // the same by its launcher

	Directory   string // that is copied
	Within      string // below it: where the program runs
	Home        string // that is copied too; "": the runs have the caller's
	Environment []string
	Input       Input

	Ignore     []*regexp.Regexp // lines of output that are not compared
	RunTimeout time.Duration
}

// A Report is what came of it.
type Report struct {
	Program   string   `json:"program"`
	Arguments []string `json:"arguments"`
	// Same: the resident's runs were like plain ones, and were none themselves.
	Same        bool         `json:"same"`
	Runs        []*Run       `json:"runs"`
	Differences []Difference `json:"differences"`
	Varies      []string     `json:"varies"` // between plain runs
	Files       []string     `json:"files"`  // that plain runs have left other than they were
	Reads       Reads        `json:"reads"`
	Before      []Note       `json:"before"`              // what it has touched before its runs
	Loaded      []string     `json:"loaded"`              // modules that its runs have loaded
	Unchecked   string       `json:"unchecked,omitempty"` // what could not be compared, and why
}

// Reads is what callers have to have alike to be run by the same resident, as it says.
type Reads struct {
	Variables []string `json:"variables"`
	Directory bool     `json:"directory"`
	Input     bool     `json:"input"`
}

// ErrNotResident is returned where there is nothing to compare with.
var ErrNotResident = errors.New("its runs were plain ones")

// Check does all of it. A report comes without an error where there was something to compare,
// be it the same or not.
func Check(ctx context.Context, s Setting) (*Report, error) {
	temporary, err := os.MkdirTemp("", "nearcall-check-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temporary)
	r := &runner{setting: s, temporary: temporary}
	if r.work, err = newCopy(s.Directory, filepath.Join(temporary, "directory", filepath.Base(s.Directory)), temporary); err != nil {
		return nil, err
	}
	if s.Home != "" {
		if r.home, err = newCopy(s.Home, filepath.Join(temporary, "home"), temporary); err != nil {
			return nil, err
		}
		r.setting.Environment = slices.Concat(r.setting.Environment, []string{"HOME=" + r.home.path})
	}
	report := &Report{Program: s.Plain[0], Arguments: append([]string{}, s.Plain[1:]...)}
	return report, r.compare(ctx, report)
}

// compare runs it plainly, by a resident that it has started, and by one that a caller
// has started who has nothing of what this one has.
func (r *runner) compare(ctx context.Context, report *Report) error {
	own, err := newResidents(filepath.Join(r.temporary, "own"))
	if err != nil {
		return err
	}
	defer own.stop()
	others, err := newResidents(filepath.Join(r.temporary, "other"))
	if err != nil {
		return err
	}
	defer others.stop()
	for _, step := range []struct {
		name    string
		command []string
		of      residents
	}{
		{runPlain, r.setting.Plain, own},
		{runAgain, r.setting.Plain, own},
		{runStart, r.setting.Resident, own},
		{runResident, r.setting.Resident, own},
		{runOther, r.setting.Resident, others},
	} {
		if step.name == runOther {
			started, err := r.startAsAnother(ctx, others)
			if err != nil {
				return err
			}
			if started.Plainly != "" {
				report.Unchecked = "what callers have for whom another has started it, as for that one it runs plainly: " + started.Plainly + others.said()
				break
			}
		}
		run, err := r.run(ctx, step.name, step.command, slices.Concat(r.setting.Environment, step.of.environment()))
		if err != nil {
			return err
		}
		report.Runs = append(report.Runs, run)
		if step.name == runResident {
			if err = own.look(ctx, report); err != nil || run.Plainly != "" {
				return notResident(run, own, err)
			}
			r.nameOriginals(report.Before)
		}
	}
	r.judge(report)
	return nil
}

// nameOriginals names files as they are called outside of the copies.
func (r *runner) nameOriginals(notes []Note) {
	for i := range notes {
		for _, c := range r.copies() {
			if below, is := strings.CutPrefix(notes[i].Name, c.path); is && notes[i].Kind != "socket" {
				notes[i].Name = c.source + below
			}
		}
	}
}

func notResident(run *Run, of residents, err error) error {
	why := run.Plainly
	if why == "" {
		why = fmt.Sprint(err)
	}
	return fmt.Errorf("%w: %s%s", ErrNotResident, why, of.said())
}

// startAsAnother starts the resident from an empty directory, with an empty home, without
// input and with none but the most needed variables.
func (r *runner) startAsAnother(ctx context.Context, of residents) (*Run, error) {
	empty := filepath.Join(r.temporary, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		return nil, err
	}
	environment := slices.DeleteFunc(slices.Clone(r.setting.Environment), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !isReadOnce(name)
	})
	environment = slices.Concat(environment, of.environment(), []string{"HOME=" + empty, "PWD=" + empty})
	return r.runIn(ctx, "that of another caller", r.setting.Resident, empty, environment, Input{})
}

// isReadOnce tells of variables of which residents take one value alone: spec/resident.md,
// and of those without which no program is found.
func isReadOnce(name string) bool {
	for _, beginning := range []string{"PATH", "LD_", "TZ", "GO", "PERL", "PYTHON", "LANG", "LC_", "NEARCALL_"} {
		if strings.HasPrefix(name, beginning) {
			return true
		}
	}
	return false
}

func (r *runner) judge(report *Report) {
	c := comparison{plain: report.Runs[0], again: report.Runs[1], ignore: r.setting.Ignore}
	report.Varies = append([]string{}, c.varies()...)
	report.Differences = []Difference{}
	for _, run := range report.Runs[2:] {
		report.Differences = append(report.Differences, c.differences(run)...)
	}
	report.Files = append([]string{}, paths(c.plain.files)...)
	report.Same = len(report.Differences) == 0
}
