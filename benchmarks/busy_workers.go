package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
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
	byTCP  func(t tools, host, port string) []string
	behind func(t tools, folder string) [][]string // each a process
}

func (t tools) busy(name string) string { return filepath.Join(t.root, "benchmarks/busyworkers", name) }

func (t tools) gunicorn(bind, class string) []string {
	return []string{filepath.Join(filepath.Dir(t.python), "gunicorn"), "-k", class, "-w", fmt.Sprint(busyWorkers), "-b", bind, "--no-control-socket",
		"--log-level", "error", "--chdir", t.busy(""), "busy:wsgi"}
}

func (t tools) starlet(options ...string) []string {
	return append([]string{"perl", "-Mblib=" + filepath.Join(t.root, "build/perl"), "-S", "plackup", "-E", "deployment",
		"--max-workers", fmt.Sprint(busyWorkers), "-a", t.busy("busy.psgi")}, options...)
}

func workerSocket(folder string, n int) string {
	return fmt.Sprintf("unix:%s/worker-%d.sock", folder, n+1)
}

var busyServers = []busyServer{
	{"gunicorn",
		func(t tools, host, port string) []string { return t.gunicorn(net.JoinHostPort(host, port), "sync") },
		func(t tools, folder string) [][]string {
			return [][]string{t.gunicorn("unix:"+folder+"/worker-%n.sock", "nearcall.gunicorn.Worker")}
		}},
	{"uvicorn",
		func(t tools, host, port string) []string {
			return []string{t.python, "-m", "uvicorn", "--workers", fmt.Sprint(busyWorkers), "--host", host, "--port", port, "--lifespan", "off",
				"--log-level", "error", "--app-dir", t.busy(""), "busy:asgi"}
		},
		func(t tools, folder string) (commands [][]string) {
			for n := range busyWorkers {
				commands = append(commands, []string{t.python, t.busy("busy.py"), workerSocket(folder, n)})
			}
			return commands
		}},
	{"starlet",
		func(t tools, host, port string) []string {
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
		s := &scene{tools: t, folder: filepath.Join(folder, server.name)}
		measures, err := s.measureBusy(ctx, server)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", server.name, err)
		}
		all = append(all, measures...)
	}
	return all, nil
}

func (s *scene) measureBusy(ctx context.Context, server busyServer) ([]result.Measure, error) {
	defer s.stopServers()
	plain, site, err := s.startBusy(server)
	if err != nil {
		return nil, err
	}
	unanswered := 0
	asking := func(hostPort string) func(bool) (float64, error) {
		return func(counts bool) (float64, error) {
			takes := busyRequest
			if !counts { // what a worker does first takes longer
				takes = 0
			}
			took, without := askAtOnce("http://"+hostPort, takes)
			unanswered += without
			return took.Seconds() * 1e3, nil
		}
	}
	took, err := inTurns(ctx, busyRounds, 1, asking(plain), asking(site))
	if err != nil {
		return nil, err
	}
	byTCP, behind := took[0], took[1]
	name := "busy_" + server.name + "_"
	return []result.Measure{
		measured(name+"by_tcp", "ms", rounded(sample.Median(byTCP), 1)),
		measured(name+"behind_front", "ms", rounded(sample.Median(behind), 1)),
		atMost(busyShare, name+"front_to_tcp", "times", rounded(sample.Median(sample.Ratios(behind, byTCP)), 3)),
		atMost(0, name+"not_answered", "requests", float64(unanswered)),
	}, nil
}

// startBusy starts a server twice, by itself and behind a front, and returns where.
func (s *scene) startBusy(server busyServer) (plain, site string, err error) {
	if err := os.Mkdir(s.folder, 0o700); err != nil {
		return "", "", err
	}
	ports, err := freePorts(3)
	if err != nil {
		return "", "", err
	}
	plain, site, metrics := ports[0], ports[1], ports[2]
	var sockets []string
	for n := range busyWorkers {
		sockets = append(sockets, workerSocket(s.folder, n))
	}
	front, err := s.front(site, "*", metrics, sockets...)
	if err != nil {
		return "", "", err
	}
	if err := s.also(startAt(metrics, front...)); err != nil {
		return "", "", err
	}
	for _, command := range server.behind(s.tools, s.folder) {
		if err := s.also(process.StartUnready(command...)); err != nil {
			return "", "", err
		}
	}
	host, port, _ := net.SplitHostPort(plain)
	if err := s.also(startAt(plain, server.byTCP(s.tools, host, port)...)); err != nil {
		return "", "", err
	}
	return plain, site, s.awaitWorkers(metrics)
}

// awaitWorkers waits until the front has all of them.
func (s *scene) awaitWorkers(metrics string) error {
	var says string
	for end := time.Now().Add(process.ReadyTimeout); time.Now().Before(end); time.Sleep(portPeriod) {
		response, err := http.Get("http://" + metrics + "/healthz")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		if says = string(text); strings.Count(says, " up\n") == busyWorkers {
			return nil
		}
	}
	err := fmt.Errorf("after %v the front has not all workers: %s", process.ReadyTimeout, says)
	for _, p := range s.others {
		err = fmt.Errorf("%w%s", err, p.Complaints())
	}
	return err
}

// askAtOnce makes as many requests at once as all rounds do, each on a connection of its own,
// and returns how many had another answer than 200.
func askAtOnce(url string, takes time.Duration) (took time.Duration, unanswered int) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: process.ReadyTimeout}
	var answered atomic.Int32
	var asking sync.WaitGroup
	began := time.Now()
	for range busyRequests {
		asking.Go(func() {
			response, err := client.Get(fmt.Sprintf("%s/%d", url, takes.Milliseconds()))
			if err != nil {
				return
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err == nil && response.StatusCode == http.StatusOK {
				answered.Add(1)
			}
		})
	}
	asking.Wait()
	return time.Since(began), busyRequests - int(answered.Load())
}
