package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
)

// What handed connections may cost.
const (
	downloadShare     = 1.03 // of the time of a direct download
	downloadRounds    = 6    // even
	handedConnections = 10_000
	// A front's memory moves by this without any connection.
	frontBytesSlack = 8 << 20
)

// measureHandoffs measures what connections cost that are not short: downloads, and
// many that do nothing; and what is lost when the server is replaced.
func (t tools) measureHandoffs(ctx context.Context, folder string) ([]result.Measure, error) {
	s := &scene{tools: t, folder: filepath.Join(folder, "handoffs"), servers: map[serverPlan]*process.Process{}}
	if err := os.Mkdir(s.folder, 0o700); err != nil {
		return nil, err
	}
	if err := allowDescriptors(handedConnections + descriptorsSpare); err != nil {
		return nil, err
	}
	defer s.stopServers()
	if err := s.startWeb(frontServer); err != nil {
		return nil, err
	}
	downloads, err := s.measureDownloads(ctx)
	if err != nil {
		return nil, err
	}
	idle, err := s.measureIdleHanded(ctx)
	if err != nil {
		return nil, err
	}
	replaced, err := s.measureReplaced(ctx)
	return slices.Concat(downloads, idle, replaced), err
}

// measureDownloads takes turns between a connection that was accepted by the server
// and one that was handed to it.
func (s *scene) measureDownloads(ctx context.Context) ([]result.Measure, error) {
	var frontCPU time.Duration
	downloading := func(from serverPlan) func(bool) (float64, error) {
		return func(counts bool) (float64, error) {
			took, cpu, err := s.download(from)
			if counts && from == frontServer {
				frontCPU += cpu
			}
			return took.Seconds(), err
		}
	}
	direct, handed, err := inPairs(ctx, downloadRounds, downloading(webServer), downloading(frontServer))
	if err != nil {
		return nil, err
	}
	share := rounded(sample.Median(sample.Ratios(handed, direct)), 3)
	cpu := rounded(frontCPU.Seconds()*1e3/downloadRounds, 3)
	return []result.Measure{
		{Name: "download_1gib_direct", Value: rounded(sample.Median(direct)*1e3, 1), Unit: "ms"},
		{Name: "download_1gib_handed", Value: rounded(sample.Median(handed)*1e3, 1), Unit: "ms"},
		{Name: "download_1gib_handed_to_direct", Value: share, Unit: "times", Goal: result.AtMost(downloadShare).Judged(share)},
		// It has accepted the connection and given it away.
		{Name: "download_1gib_front_cpu", Value: cpu, Unit: "ms", Goal: result.AtMost(1).Judged(cpu)},
	}, nil
}

// download fetches the file on a connection of its own, and returns the CPU time
// that the front has used meanwhile.
func (s *scene) download(from serverPlan) (took, frontCPU time.Duration, err error) {
	front := s.servers[frontServer].PID()
	before, err := processCPU(front)
	if err != nil {
		return 0, 0, err
	}
	started := time.Now()
	c, response, err := s.get(from, "/file")
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	bytes, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{response.Body}, make([]byte, mebibyte))
	took = time.Since(started)
	after, cpuErr := processCPU(front)
	if bytes != downloadBytes {
		err = errors.Join(err, fmt.Errorf("%d bytes came of %d", bytes, downloadBytes))
	}
	return took, after - before, errors.Join(err, cpuErr)
}

// webRequestOf takes a path.
const webRequestOf = "GET %s HTTP/1.1\r\nHost: bench.example\r\n\r\n"

// get sends a request on a connection of its own and reads the answer's head.
func (s *scene) get(from serverPlan, path string) (net.Conn, *http.Response, error) {
	c, err := net.Dial("tcp", s.web.hostPort(from))
	if err != nil {
		return nil, nil, err
	}
	if _, err := fmt.Fprintf(c, webRequestOf, path); err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, response, nil
}

// holding is what a process holds.
type holding struct{ descriptors, threads, bytes, goroutines int }

// measureIdleHanded keeps many connections that have been answered once: first the
// server's own, then as many that were handed to it.
func (s *scene) measureIdleHanded(ctx context.Context) ([]result.Measure, error) {
	if err := s.keepAndClose(ctx, frontServer, handedConnections); err != nil { // what it grows to
		return nil, err
	}
	front, web := s.servers[frontServer], s.servers[webServer]
	before, err := s.holdingOf(front)
	if err != nil {
		return nil, err
	}
	plain, err := s.keep(ctx, webServer, handedConnections, web)
	if err != nil {
		return nil, err
	}
	handed, err := s.keep(ctx, frontServer, handedConnections, web, front)
	if err != nil {
		return nil, err
	}
	held := handed[1]
	measures := []result.Measure{
		{Name: "handed_connections", Value: handedConnections, Unit: "connections"},
		{Name: "handed_front_threads", Value: float64(held.threads), Unit: "threads"},
		{Name: "handed_backend_threads", Value: float64(handed[0].threads), Unit: "threads",
			Goal: result.AtMost(float64(plain[0].threads)).Judged(float64(handed[0].threads))},
		{Name: "plain_backend_threads", Value: float64(plain[0].threads), Unit: "threads"},
	}
	for _, m := range []struct {
		name, unit string
		grown      int
		slack      float64
	}{
		{"handed_front_descriptors_more", "descriptors", held.descriptors - before.descriptors, 0},
		{"handed_front_goroutines_more", "goroutines", held.goroutines - before.goroutines, 0},
		{"handed_front_bytes_more", "bytes", held.bytes - before.bytes, frontBytesSlack},
	} {
		grown := float64(m.grown)
		measures = append(measures, result.Measure{Name: m.name, Value: grown, Unit: m.unit, Goal: result.AtMost(m.slack).Judged(grown)})
	}
	return measures, nil
}

func (s *scene) keepAndClose(ctx context.Context, from serverPlan, count int) error {
	_, err := s.keep(ctx, from, count)
	return err
}

// keep opens connections, each answered once, and returns what processes hold while
// they are open.
func (s *scene) keep(ctx context.Context, from serverPlan, count int, of ...*process.Process) ([]holding, error) {
	for n := range count {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c, _, err := s.get(from, "/")
		if err != nil {
			return nil, fmt.Errorf("connection %d of %d: %w", n+1, count, err)
		}
		defer c.Close()
	}
	if err := settle(ctx, of); err != nil {
		return nil, err
	}
	holdings := make([]holding, len(of))
	for i, p := range of {
		var err error
		if holdings[i], err = s.holdingOf(p); err != nil {
			return nil, err
		}
	}
	return holdings, nil
}

func (s *scene) holdingOf(p *process.Process) (h holding, err error) {
	entries := func(name string) int {
		found, readErr := os.ReadDir(fmt.Sprintf("/proc/%d/%s", p.PID(), name))
		err = errors.Join(err, readErr)
		return len(found)
	}
	h.descriptors, h.threads = entries("fd"), entries("task")
	bytes, residentErr := residentBytes(p.PID())
	h.bytes, err = int(bytes), errors.Join(err, residentErr)
	if p == s.servers[frontServer] {
		var metricErr error
		h.goroutines, metricErr = s.web.frontMetric("go_goroutines")
		err = errors.Join(err, metricErr)
	}
	return h, err
}

// frontMetric asks the front for one of its metrics.
func (w *web) frontMetric(name string) (int, error) {
	// A connection that is kept would be counted.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + w.hostPort(metricsServer) + "/metrics")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), name+" "); found {
			return strconv.Atoi(value)
		}
	}
	return 0, fmt.Errorf("the front has no metric %s", name)
}
