package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
	"github.com/nearcall/nearcall/client"
)

// A residence is where the published comparison of spawning with staying resident
// is made again.
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

// wayTurns are how often each way is taken. All have turns in a row, every second time
// backwards, and what is reported is the median.
const wayTurns = 3

// measureResidents makes runs of a program of cobra that prints its flag, in each
// way.
func (t tools) measureResidents(ctx context.Context, folder string) (all []result.Measure, err error) {
	r := &residence{t, filepath.Join(folder, residentsFolder)}
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	ways := r.ways()
	for _, runs := range report.PublishedRuns {
		each, err := inTurns(ctx, ways, wayTurns, runs)
		if err != nil {
			return nil, err
		}
		for i, way := range ways {
			all = append(all, result.Measure{Name: report.ResidentMeasure(way.name, runs), Value: rounded(each[i], 0), Unit: "ns per run"})
		}
	}
	return all, nil
}

func (r *residence) ways() []way {
	// To start the server is to make one run of it.
	started := func(dial func(runs int) error) func(runs int) error {
		return func(runs int) error {
			if err := r.ready(); err != nil {
				return err
			}
			return dial(runs)
		}
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

// inTurns takes every way so often and returns the median of the ns for each run.
func inTurns(ctx context.Context, ways []way, turns, runs int) ([]float64, error) {
	each := make([][]float64, len(ways))
	for turn := range turns {
		for n := range ways {
			i := n
			if turn%2 == 1 {
				i = len(ways) - 1 - n
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			took, err := ways[i].timed(runs)
			if err != nil {
				return nil, fmt.Errorf("%s, %d runs: %w", ways[i].name, runs, err)
			}
			each[i] = append(each[i], float64(took.Nanoseconds())/float64(runs))
		}
	}
	medians := make([]float64, len(ways))
	for i := range each {
		medians[i] = sample.Median(each[i])
	}
	return medians, nil
}

// inPairs takes two ways in turns, so often each, so that neither always follows the other;
// the first of each, which does not count, is for caches and for code that never ran.
func inPairs(ctx context.Context, rounds int, one, other func(counts bool) (float64, error)) (ones, others []float64, err error) {
	for n := range 2*rounds + 2 {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		take, figures, counts := one, &ones, n >= 2
		if n%4 == 1 || n%4 == 2 {
			take, figures = other, &others
		}
		figure, err := take(counts)
		if err != nil {
			return nil, nil, err
		}
		if counts {
			*figures = append(*figures, figure)
		}
	}
	return ones, others, nil
}

func (w way) timed(runs int) (time.Duration, error) {
	if err := w.prepare(); err != nil {
		return 0, err
	}
	began := time.Now()
	err := w.run(runs)
	return time.Since(began), err
}

// ready lets a resident be there.
func (r *residence) ready() error { return r.launchEach(1) }

func (r *residence) spawnEach(runs int) error { return r.each(runs, r.built("echo")) }

func (r *residence) launchEach(runs int) error {
	return r.each(runs, filepath.Join(r.root, "build/bin/nearcall-run"), r.built("echo"))
}

// each runs a command so often, one after the other.
func (r *residence) each(runs int, words ...string) error {
	words = append(words, "--value", said)
	for range runs {
		command := exec.Command(words[0], words[1:]...)
		command.Env = r.environment()
		if output, err := command.Output(); err != nil || string(output) != said+"\n" {
			return fmt.Errorf("%s: output %q, %w", words[0], output, err)
		}
	}
	return nil
}

func (r *residence) dialEach(runs int) error {
	for range runs {
		if err := r.dialOnce(1); err != nil {
			return err
		}
	}
	return nil
}

func (r *residence) dialOnce(runs int) error {
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

// address is where the resident's functions are called.
func (r *residence) address() (string, error) {
	found, err := filepath.Glob(filepath.Join(r.folder, "nearcall-resident", "echo-*.sock"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("there is not one resident: %v, %w", found, err)
	}
	return "unix:" + found[0], nil
}

func (r *residence) environment() []string {
	return append(os.Environ(), "XDG_RUNTIME_DIR="+r.folder)
}

// stop ends the resident, if there is one, and waits until it has gone.
func (r *residence) stop() error {
	pid, err := residentOf(r.folder, r.built("echo"))
	if err != nil || pid == 0 {
		return err
	}
	gone, err := endOf(pid)
	if err != nil {
		return err
	}
	return errors.Join(stopResidents(r.root, r.environment()), gone(process.ReadyTimeout))
}
