package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// A busyScene is one server twice, by itself and behind a front.
type busyScene struct {
	tools
	folder               string
	plain, site, metrics string // HOST:PORT of the server, of the front, and of its metrics
	processes            []*process.Process
}

func (b *busyScene) start(server busyServer) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	b.plain, b.site, b.metrics = local(ports[0]), local(ports[1]), local(ports[2])
	var sockets []string
	for n := range busyWorkers {
		sockets = append(sockets, fmt.Sprintf("%q", fmt.Sprintf("unix:%s/worker-%d.sock", b.folder, n+1)))
	}
	configuration := filepath.Join(b.folder, "front.toml")
	if err := os.WriteFile(configuration, fmt.Appendf(nil, frontConfig, b.site, "*", strings.Join(sockets, ", "), b.metrics), 0o600); err != nil {
		return err
	}
	front, err := b.add(filepath.Join(b.root, "build/bin/nearcall"), "front", configuration)
	if err != nil {
		return err
	}
	for _, command := range server.behind(b.tools, b.folder) {
		if _, err := b.add(command...); err != nil {
			return err
		}
	}
	plain, err := b.add(server.byTCP(b.tools, b.plain)...)
	if err != nil {
		return err
	}
	return errors.Join(awaitPort(plain, b.plain), awaitPort(front, b.metrics), b.awaitWorkers())
}

func (b *busyScene) add(command ...string) (*process.Process, error) {
	p, err := process.StartUnready(command...)
	if err == nil {
		b.processes = append(b.processes, p)
	}
	return p, err
}

// awaitWorkers waits until the front has all of them.
func (b *busyScene) awaitWorkers() error {
	var says string
	for end := time.Now().Add(process.ReadyTimeout); time.Now().Before(end); time.Sleep(portPeriod) {
		response, err := http.Get("http://" + b.metrics + "/healthz")
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
	why := []string{fmt.Sprintf("after %v the front has not all workers: %s", process.ReadyTimeout, says)}
	for _, p := range b.processes {
		why = append(why, p.Complaints())
	}
	return errors.New(strings.Join(why, ""))
}

func (b *busyScene) stop() {
	for _, p := range b.processes {
		p.Stop()
	}
}

// takeTurns returns how long each turn took, in milliseconds, and how many requests had
// another answer than 200.
func (b *busyScene) takeTurns(ctx context.Context) (byTCP, behind []float64, unanswered int, err error) {
	asking := func(hostPort string) func(bool) (float64, error) {
		return func(counts bool) (float64, error) {
			takes := busyRequest
			if !counts { // what a worker does first takes longer
				takes = 0
			}
			took, without := askAtOnce("http://"+hostPort, takes)
			unanswered += without
			return float64(took) / float64(time.Millisecond), nil
		}
	}
	byTCP, behind, err = inPairs(ctx, busyRounds, asking(b.plain), asking(b.site))
	return byTCP, behind, unanswered, err
}

// askAtOnce makes as many requests at once as all rounds do, each on a connection of its own.
func askAtOnce(url string, takes time.Duration) (took time.Duration, unanswered int) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: process.ReadyTimeout}
	var without atomic.Int32
	var asking sync.WaitGroup
	began := time.Now()
	for range busyRequests {
		asking.Go(func() {
			response, err := client.Get(fmt.Sprintf("%s/%d", url, takes.Milliseconds()))
			if err != nil {
				without.Add(1)
				return
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
				without.Add(1)
			}
		})
	}
	asking.Wait()
	return time.Since(began), int(without.Load())
}
