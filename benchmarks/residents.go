package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/resident/inspect"
)

// A residence is where residents are: those of the commands of a group, or those with which
// the published comparison of spawning with staying resident is made again.
type residence struct {
	tools
	folder string // XDG_RUNTIME_DIR of all
}

// A way is one of running a program many times.
type way struct {
	name    string
	prepare func() error // before the time begins
	run     func(runs int) error
}

// wayTurns are how often each way is taken; what is reported is the median.
const wayTurns = 3

// measureResidents makes runs of a program of cobra that prints its flag, in each
// way.
func (t tools) measureResidents(ctx context.Context, folder string) (all []result.Measure, err error) {
	r := residence{t, filepath.Join(folder, "residents")}
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	for _, runs := range report.PublishedRuns {
		var taken []func(bool) (float64, error)
		for _, way := range r.ways() {
			taken = append(taken, func(bool) (float64, error) { return way.timed(runs) })
		}
		each, err := inTurns(ctx, wayTurns, 0, taken...)
		if err != nil {
			return nil, err
		}
		for i, way := range r.ways() {
			all = append(all, measured(report.ResidentMeasure(way.name, runs), "ns per run", rounded(sample.Median(each[i]), 0)))
		}
	}
	return all, nil
}

func (r residence) ways() []way {
	// To start the server is to make one run of it.
	started := func(dial func(runs int) error) func(runs int) error {
		return func(runs int) error { return errors.Join(r.ready(), dial(runs)) }
	}
	return []way{
		{report.SpawnEach, r.ready, r.spawnEach},
		{report.StartDialEach, r.stop, started(r.dialEach)},
		{report.StartDialOnce, r.stop, started(r.dialOnce)},
		{report.DialOnce, r.ready, r.dialOnce},
		{report.LaunchFromCold, r.stop, r.launchEach},
		{report.LaunchEach, r.ready, r.launchEach},
	}
}

// timed returns the ns of each run.
func (w way) timed(runs int) (float64, error) {
	err := w.prepare()
	began := time.Now()
	if err == nil {
		err = w.run(runs)
	}
	took := float64(time.Since(began).Nanoseconds()) / float64(runs)
	if err != nil {
		err = fmt.Errorf("%s, %d runs: %w", w.name, runs, err)
	}
	return took, err
}

// ready lets a resident be there.
func (r residence) ready() error { return r.launchEach(1) }

func (r residence) spawnEach(runs int) error { return r.each(runs, r.built("echo")) }

func (r residence) launchEach(runs int) error {
	return r.each(runs, filepath.Join(r.root, "build/bin/nearcall-run"), r.built("echo"))
}

// each runs a command so often, one after the other.
func (r residence) each(runs int, words ...string) error {
	words = append(words, "--value", said)
	for range runs {
		if output, err := process.Output(r.environment(), words...); err != nil || output != said+"\n" {
			return fmt.Errorf("%s: output %q, %w", words[0], output, err)
		}
	}
	return nil
}

func (r residence) dialEach(runs int) error {
	for range runs {
		if err := r.dialOnce(1); err != nil {
			return err
		}
	}
	return nil
}

func (r residence) dialOnce(runs int) error {
	address, err := r.address()
	if err != nil {
		return err
	}
	c, err := client.New(address)
	if err != nil {
		return err
	}
	defer c.Close()
	var reply []byte
	for range runs {
		if reply, err = c.CallRaw(context.Background(), "echo", []byte(said), reply[:0]); err != nil || string(reply) != said {
			return fmt.Errorf("reply %q: %w", reply, err)
		}
	}
	return nil
}

func (r residence) sockets(program string) ([]string, error) {
	return filepath.Glob(filepath.Join(r.folder, "nearcall-resident", program+"-*.sock"))
}

// address is where the resident's functions are called.
func (r residence) address() (string, error) {
	found, err := r.sockets("echo")
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("there is not one resident: %v, %w", found, err)
	}
	return "unix:" + found[0], nil
}

func (r residence) environment() []string { return []string{"XDG_RUNTIME_DIR=" + r.folder} }

// of returns the process of a program's resident; 0: there is none.
func (r residence) of(program string) (pid int, err error) {
	wanted, err := os.Stat(program)
	if err != nil {
		return 0, err
	}
	sockets, err := r.sockets(filepath.Base(program))
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), process.ReadyTimeout)
	defer cancel()
	for _, socket := range sockets {
		report, err := inspect.Place{Name: filepath.Base(program), Socket: socket}.Status(ctx)
		if errors.Is(err, inspect.ErrNotRunning) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if resides, err := os.Stat(report.Program); err == nil && os.SameFile(resides, wanted) {
			return report.ProcessID, nil
		}
	}
	return 0, nil
}

// stop ends the resident of the published comparison, if there is one, and waits until it has gone.
func (r residence) stop() error {
	pid, err := r.of(r.built("echo"))
	if err != nil || pid == 0 {
		return err
	}
	gone, err := endOf(pid)
	if err != nil {
		return err
	}
	return errors.Join(r.stopAll(), gone(process.ReadyTimeout))
}

func (r residence) stopAll() error {
	_, err := process.Output(r.environment(), filepath.Join(r.root, "build/bin/nearcall"), "resident", "stop")
	return err
}
