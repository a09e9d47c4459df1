package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
)

// Requests that take longer than a front lets a process leave a connection unanswered while
// another is free (health_ms, 200 by default), to as many workers as there are here.
const (
	busyWorkers  = 2
	busyRequest  = 300 * time.Millisecond
	busyRequests = 8 // all at once
	busyRounds   = 4 // even
	// busyShare is what they may take behind a front, of the time by TCP.
	busyShare = 1.05
)

// A busyServer is a program of workers: on a port of their own, and with connections from a
// front at FOLDER/worker-N.sock.
type busyServer struct {
	name   string
	byTCP  func(t tools, hostPort string) []string
	behind func(t tools, folder string) [][]string // each a process
}

func (t tools) busy(name string) string { return filepath.Join(t.root, "benchmarks/busyworkers", name) }

func (t tools) besidePython(name string) string { return filepath.Join(filepath.Dir(t.python), name) }

func (t tools) gunicorn(bind, class string) []string {
	return []string{t.besidePython("gunicorn"), "-k", class, "-w", fmt.Sprint(busyWorkers), "-b", bind, "--no-control-socket",
		"--log-level", "error", "--chdir", t.busy(""), "busy:wsgi"}
}

func (t tools) starlet(options ...string) []string {
	return append([]string{"perl", "-Mblib=" + filepath.Join(t.root, "build/perl"), "-S", "plackup", "-E", "deployment",
		"--max-workers", fmt.Sprint(busyWorkers), "-a", t.busy("busy.psgi")}, options...)
}

var busyServers = []busyServer{
	{"gunicorn",
		func(t tools, hostPort string) []string { return t.gunicorn(hostPort, "sync") },
		func(t tools, folder string) [][]string {
			return [][]string{t.gunicorn("unix:"+folder+"/worker-%n.sock", "nearcall.gunicorn.Worker")}
		}},
	{"uvicorn",
		func(t tools, hostPort string) []string {
			host, port, _ := net.SplitHostPort(hostPort)
			return []string{t.python, "-m", "uvicorn", "--workers", fmt.Sprint(busyWorkers), "--host", host, "--port", port, "--lifespan", "off",
				"--log-level", "error", "--app-dir", t.busy(""), "busy:asgi"}
		},
		func(t tools, folder string) (commands [][]string) {
			for n := range busyWorkers {
				commands = append(commands, []string{t.python, t.busy("busy.py"), fmt.Sprintf("unix:%s/worker-%d.sock", folder, n+1)})
			}
			return commands
		}},
	{"starlet",
		func(t tools, hostPort string) []string {
			host, port, _ := net.SplitHostPort(hostPort)
			return t.starlet("-s", "Starlet", "--host", host, "--port", port)
		},
		func(t tools, folder string) [][]string {
			return [][]string{t.starlet("-s", "Nearcall", "--handoff", "unix:"+folder+"/worker-%n.sock")}
		}},
}

// busyLength is about how long all of them take.
func busyLength() time.Duration {
	const start, turn = 3 * time.Second, busyRequests / busyWorkers * busyRequest
	return time.Duration(len(busyServers)) * (start + 2*busyRounds*turn)
}

// measureBusyWorkers asks each server for as many long requests as it has to do one after the
// other, by TCP and behind a front.
func (t tools) measureBusyWorkers(ctx context.Context, folder string) (all []result.Measure, err error) {
	for _, server := range busyServers {
		below := filepath.Join(folder, server.name)
		if err := os.Mkdir(below, 0o700); err != nil {
			return nil, err
		}
		measures, err := t.measureBusy(ctx, server, below)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", server.name, err)
		}
		all = append(all, measures...)
	}
	return all, nil
}

func (t tools) measureBusy(ctx context.Context, server busyServer, folder string) ([]result.Measure, error) {
	b := &busyScene{tools: t, folder: folder}
	defer b.stop()
	if err := b.start(server); err != nil {
		return nil, err
	}
	byTCP, behind, unanswered, err := b.takeTurns(ctx)
	if err != nil {
		return nil, err
	}
	share := rounded(sample.Median(sample.Ratios(behind, byTCP)), 3)
	name := "busy_" + server.name + "_"
	return []result.Measure{
		{Name: name + "by_tcp", Value: rounded(sample.Median(byTCP), 1), Unit: "ms"},
		{Name: name + "behind_front", Value: rounded(sample.Median(behind), 1), Unit: "ms"},
		{Name: name + "front_to_tcp", Value: share, Unit: "times", Goal: result.AtMost(busyShare).Judged(share)},
		{Name: name + "not_answered", Value: float64(unanswered), Unit: "requests", Goal: result.AtMost(0).Judged(float64(unanswered))},
	}, nil
}
