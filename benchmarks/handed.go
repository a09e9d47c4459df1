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
func (t tools) measureHandoffs(ctx context.Context, folder string) (all []result.Measure, err error) {
	s := &scene{tools: t, folder: filepath.Join(folder, "handoffs"), servers: map[serverPlan]*process.Process{}}
	if err := errors.Join(os.Mkdir(s.folder, 0o700), allowDescriptors(handedConnections+descriptorsSpare)); err != nil {
		return nil, err
	}
	defer s.stopServers()
	if err := s.startWeb(frontServer); err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context) ([]result.Measure, error){s.measureDownloads, s.measureIdleHanded, s.measureReplaced} {
		measures, err := part(ctx)
		if err != nil {
			return nil, err
		}
		all = slices.Concat(all, measures)
	}
	return all, nil
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
	took, err := inTurns(ctx, downloadRounds, 1, downloading(webServer), downloading(frontServer))
	if err != nil {
		return nil, err
	}
	direct, handed := took[0], took[1]
	return []result.Measure{
		measured("download_1gib_direct", "ms", rounded(sample.Median(direct)*1e3, 1)),
		measured("download_1gib_handed", "ms", rounded(sample.Median(handed)*1e3, 1)),
		atMost(downloadShare, "download_1gib_handed_to_direct", "times", rounded(sample.Median(sample.Ratios(handed, direct)), 3)),
		// It has accepted the connection and given it away.
		atMost(1, "download_1gib_front_cpu", "ms", rounded(frontCPU.Seconds()*1e3/downloadRounds, 3)),
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
	began := time.Now()
	c := &webClient{address: s.web[from]}
	response, err := c.get("/file")
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	bytes, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{response.Body}, make([]byte, mebibyte))
	took = time.Since(began)
	after, cpuErr := processCPU(front)
	if bytes != downloadBytes {
		err = errors.Join(err, fmt.Errorf("%d bytes came of %d", bytes, downloadBytes))
	}
	return took, after - before, errors.Join(err, cpuErr)
}

// A webClient asks on a connection that it makes when it has none.
type webClient struct {
	address    string
	patience   time.Duration // an answer that comes later is none; 0: it may come any time
	connection net.Conn
	reader     *bufio.Reader
}

// get sends a request once and returns the answer, whose body is still to be read.
func (c *webClient) get(path string) (*http.Response, error) {
	if c.connection == nil {
		var err error
		if c.connection, err = net.Dial("tcp", c.address); err != nil {
			return nil, err
		}
		c.reader = bufio.NewReader(c.connection)
	}
	if c.patience > 0 {
		if err := c.connection.SetDeadline(time.Now().Add(c.patience)); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	if _, err := fmt.Fprintf(c.connection, "GET %s HTTP/1.1\r\nHost: bench.example\r\n\r\n", path); err != nil {
		return nil, errors.Join(err, c.close())
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the answer is %s", response.Status)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return response, nil
}

func (c *webClient) close() (err error) {
	if c.connection != nil {
		err, c.connection = c.connection.Close(), nil
	}
	return err
}

// holding is what a process holds.
type holding struct{ descriptors, threads, bytes, goroutines int }

// measureIdleHanded keeps many connections that have been answered once: first the
// server's own, then as many that were handed to it.
func (s *scene) measureIdleHanded(ctx context.Context) ([]result.Measure, error) {
	front, web := s.servers[frontServer], s.servers[webServer]
	if _, err := s.keep(ctx, frontServer, nil); err != nil { // what it grows to
		return nil, err
	}
	before, err := s.holdingOf(front)
	if err != nil {
		return nil, err
	}
	plain, err := s.keep(ctx, webServer, []*process.Process{web})
	if err != nil {
		return nil, err
	}
	handed, err := s.keep(ctx, frontServer, []*process.Process{web, front})
	if err != nil {
		return nil, err
	}
	held := handed[1]
	return []result.Measure{
		measured("handed_connections", "connections", handedConnections),
		measured("handed_front_threads", "threads", float64(held.threads)),
		atMost(float64(plain[0].threads), "handed_backend_threads", "threads", float64(handed[0].threads)),
		measured("plain_backend_threads", "threads", float64(plain[0].threads)),
		atMost(0, "handed_front_descriptors_more", "descriptors", float64(held.descriptors-before.descriptors)),
		atMost(0, "handed_front_goroutines_more", "goroutines", float64(held.goroutines-before.goroutines)),
		atMost(frontBytesSlack, "handed_front_bytes_more", "bytes", float64(held.bytes-before.bytes)),
	}, nil
}

// keep opens connections, each answered once, and returns what processes hold while
// they are open.
func (s *scene) keep(ctx context.Context, from serverPlan, of []*process.Process) (holdings []holding, err error) {
	for n := range handedConnections {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c := &webClient{address: s.web[from]}
		if _, err := c.get("/"); err != nil {
			return nil, fmt.Errorf("connection %d of %d: %w", n+1, handedConnections, err)
		}
		defer c.close()
	}
	if err := settle(ctx, of); err != nil {
		return nil, err
	}
	for _, p := range of {
		held, err := s.holdingOf(p)
		if err != nil {
			return nil, err
		}
		holdings = append(holdings, held)
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
		h.goroutines, metricErr = frontMetric(s.web[metricsServer], "go_goroutines")
		err = errors.Join(err, metricErr)
	}
	return h, err
}

// frontMetric asks a front for one of its metrics.
func frontMetric(hostPort, name string) (int, error) {
	// A connection that is kept would be counted.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + hostPort + "/metrics")
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
