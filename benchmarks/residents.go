package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/client"
)

// A residence is where the published comparison of spawning with staying resident
// is made again.
type residence struct {
	tools
	folder string // XDG_RUNTIME_DIR of all
}

// measureResidents makes runs of a program of cobra that prints its flag, in each
// way.
func (t tools) measureResidents(ctx context.Context, folder string) (all []result.Measure, err error) {
	r := &residence{t, filepath.Join(folder, residentsFolder)}
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	ways := map[string]func(runs int) error{
		report.SpawnEach:      r.spawnEach,
		report.StartDialEach:  r.fromCold(r.dialEach),
		report.StartDialOnce:  r.fromCold(r.dialOnce),
		report.DialOnce:       r.dialOnce,
		report.LaunchEach:     r.launchEach,
		report.LaunchFromCold: r.fromCold(r.launchEach),
	}
	for _, runs := range report.PublishedRuns {
		for _, way := range report.PublishedWays() {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err := r.ready(); err != nil {
				return nil, err
			}
			began := time.Now()
			if err := ways[way](runs); err != nil {
				return nil, fmt.Errorf("%s, %d runs: %w", way, runs, err)
			}
			each := float64(time.Since(began).Nanoseconds()) / float64(runs)
			all = append(all, result.Measure{Name: report.ResidentMeasure(way, runs), Value: rounded(each, 0), Unit: "ns per run"})
		}
	}
	return all, nil
}

// ready lets a resident be there.
func (r *residence) ready() error { return r.launchEach(1) }

// fromCold is a way that begins with starting the resident.
func (r *residence) fromCold(way func(runs int) error) func(runs int) error {
	return func(runs int) error {
		if err := r.stop(); err != nil {
			return err
		}
		if err := r.ready(); err != nil {
			return err
		}
		return way(runs)
	}
}

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

func (r *residence) stop() error { return stopResidents(r.root, r.environment()) }
