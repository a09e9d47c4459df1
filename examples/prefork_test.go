package examples_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	loadSeconds     = 10
	httpConnections = 16
	killInterval    = 250 * time.Millisecond
	// Every so many kills the whole pool is reloaded.
	killsPerReload = 8
	workersMax     = 8
	// Within so many visits more than one worker has served.
	visitsMax = 1000
)

// A pool is an application server with prefork workers.
type pool struct {
	// command starts it on a port; reload makes it replace its workers.
	command     func(port string) []string
	environment []string
	reload      syscall.Signal // 0: it is not reloaded
	// A reload starts another parent, whose library counts from the beginning.
	reloadsParent bool
	// depth of the workers below the process that was started.
	depth int
}

func TestPreforkPerl(t *testing.T) { drive(t, starlet(t)) }

func TestPreforkPython(t *testing.T) { drive(t, gunicorn(t)) }

func TestPreforkPerlEmbedded(t *testing.T) { driveEmbedded(t, starlet(t)) }

func TestPreforkPythonEmbedded(t *testing.T) { driveEmbedded(t, gunicorn(t)) }

func starlet(t *testing.T) pool {
	library := built(t, "perl/blib")
	return pool{
		environment: []string{"PERL5LIB=" + filepath.Join(library, "lib") + ":" + filepath.Join(library, "arch")},
		command: func(port string) []string {
			return []string{"start_server", "--port=127.0.0.1:" + port, "--interval=1", "--",
				"plackup", "-s", "Starlet", "--max-workers=" + strconv.Itoa(workersMax), "--err-respawn-interval=0", "-E", "deployment",
				"-a", "prefork-perl/app.psgi"}
		},
		reload: syscall.SIGHUP, reloadsParent: true, depth: 2,
	}
}

func gunicorn(t *testing.T) pool {
	gunicorn := built(t, "examples/venv/bin/gunicorn")
	return pool{
		command: func(port string) []string {
			return []string{gunicorn, "--bind=127.0.0.1:" + port, "--preload", "--workers=" + strconv.Itoa(workersMax),
				"--chdir=prefork-python", "--no-control-socket", "app:application"}
		},
		reload: syscall.SIGHUP, depth: 1,
	}
}

// drive loads the application with HTTP requests while its workers are killed and
// reloaded. A worker that is killed takes the request with it that it was serving,
// and no more; nothing may fail because of Nearcall.
func drive(t *testing.T, p pool) {
	server, socket := helloServer(t)
	application, url := p.start(t, "unix:"+socket)
	report, d := torment(t, p, application, url)
	checkVisits(t, url, report, d)
	server.stop(t)
	checkErrorsAreSeen(t, application, url)
}

// driveEmbedded does the same with the library in the parent of the workers, which
// calls it before they are forked. Where a reload loses the count, it is checked
// without reloads first.
func driveEmbedded(t *testing.T, p pool) {
	application, url := p.start(t, "embed:"+built(t, "examples/libhello.so"))
	if log := application.log(t); !strings.Contains(log, "Hello, parent!") {
		t.Error("the parent did not call the library")
	}
	if p.reloadsParent {
		stays := p
		stays.reload = 0
		report, d := torment(t, stays, application, url)
		checkVisits(t, url, report, d)
		torment(t, p, application, url)
		checkCountIsShared(t, p, application, url)
	} else {
		report, d := torment(t, p, application, url)
		checkVisits(t, url, report, d)
	}
	killParents(t, p, application)
	checkErrorsAreSeen(t, application, url)
}

// killParents leaves the workers alone.
func killParents(t *testing.T, p pool, application *process) {
	t.Helper()
	var parents []int
	for depth := range p.depth {
		parents = append(parents, descendants(application.pid(), depth)...)
	}
	for _, pid := range parents {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("parent %d: %v", pid, err)
		}
	}
	<-application.ended
}

// start starts the pool with an address of Go's.
func (p pool) start(t *testing.T, address string) (application *process, url string) {
	port := freePort(t)
	command := p.command(port)
	application = start(t, append(p.environment, "NEARCALL_ADDRESS="+address), command[0], command[1:]...)
	url = "http://127.0.0.1:" + port
	await(t, "the application answers", func() bool { return get(url+"/ready").status == http.StatusOK })
	return application, url
}

// torment is the load and what is done to the workers meanwhile.
func torment(t *testing.T, p pool, application *process, url string) (loadReport, disturbance) {
	done := make(chan struct{})
	disturbed := make(chan disturbance)
	go func() { disturbed <- disturb(t, application.pid(), p, done) }()
	report := load(t, url)
	close(done)
	d := <-disturbed
	t.Logf("%d requests by %d workers, p50 %d us, p99 %d us; %d workers killed, %d reloads; requests lost with a killed worker: %d",
		report.Requests, report.Workers, report.P50Us, report.P99Us, d.kills, d.reloads, report.lost())
	checkLoad(t, p, report, d)
	if log := application.log(t); strings.Contains(log, "nearcall error") {
		t.Error("a worker met a Nearcall error; its log follows")
	}
	return report, d
}

// checkLoad holds every request that failed against a worker that was killed.
func checkLoad(t *testing.T, p pool, r loadReport, d disturbance) {
	t.Helper()
	if d.kills == 0 || (p.reload != 0 && d.reloads == 0) || r.Workers <= workersMax {
		t.Errorf("workers were not killed and reloaded: %+v, %+v", d, r)
	}
	if r.Requests == 0 || r.Wrong > 0 || r.Not2xx > 0 {
		t.Errorf("not every answer was right: %+v", r)
	}
	if r.lost() > d.kills || r.ConnectErrors > 0 || r.Timeouts > 0 {
		t.Errorf("%d workers were killed, each serving one request at a time; more requests failed: %+v", d.kills, r)
	}
}

// checkVisits: every request that was answered was counted in Go, once.
func checkVisits(t *testing.T, url string, r loadReport, d disturbance) {
	t.Helper()
	visits, _ := visit(t, url)
	// wrk breaks off what is under way when its time is over.
	least, most := r.Requests+1, r.Requests+1+d.kills+httpConnections
	if visits < least || visits > most {
		t.Errorf("Go counted %d visits; %d were answered, so %d to %d are right", visits, r.Requests, least, most)
	}
}

// visit returns the number of this visit and the worker that served it.
func visit(t *testing.T, url string) (number, worker int) {
	t.Helper()
	answer := get(url + "/load")
	if _, err := fmt.Sscanf(answer.body, "Hello, /load! Visit %d, served by %d.", &number, &worker); err != nil {
		t.Fatalf("%+v: %v", answer, err)
	}
	return number, worker
}

// checkCountIsShared: when the last reload is over, one parent counts for all workers.
func checkCountIsShared(t *testing.T, p pool, application *process, url string) {
	t.Helper()
	await(t, "one parent is left", func() bool {
		return len(descendants(application.pid(), p.depth-1)) == 1 && len(descendants(application.pid(), p.depth)) == workersMax
	})
	workers := map[int]bool{}
	before, _ := visit(t, url)
	for count := 1; len(workers) < 2; count++ {
		number, worker := visit(t, url)
		workers[worker] = true
		if count == visitsMax {
			t.Fatalf("one worker serves all: %v", workers)
		}
		if number != before+count {
			t.Fatalf("after visit %d, %d visits later, the visit by worker %d is number %d", before, count, worker, number)
		}
	}
}

// checkErrorsAreSeen: the checks above rest on the application's answer and log,
// so both must tell when Go is away.
func checkErrorsAreSeen(t *testing.T, application *process, url string) {
	t.Helper()
	if answer := get(url + "/"); answer.status != http.StatusServiceUnavailable {
		t.Errorf("without Go the application answered %+v", answer)
	}
	if log := application.log(t); !strings.Contains(log, "UNAVAILABLE") || !strings.Contains(log, "not executed") {
		t.Error("without Go the application logged no error")
	}
}

// A loadReport is what load.lua prints.
type loadReport struct {
	Requests, Wrong, Workers, Timeouts int
	Not2xx                             int `json:"not_2xx"`
	ConnectErrors                      int `json:"connect_errors"`
	ReadErrors                         int `json:"read_errors"`
	WriteErrors                        int `json:"write_errors"`
	P50Us                              int `json:"p50_us"`
	P99Us                              int `json:"p99_us"`
	// One of the wrong answers, with its status before it.
	WrongAnswer string `json:"wrong_answer"`
}

// lost are the requests whose connection broke.
func (r loadReport) lost() int { return r.ReadErrors + r.WriteErrors }

func load(t *testing.T, url string) loadReport {
	t.Helper()
	out := output(t, nil, "wrk", "-t", "1", "-c", strconv.Itoa(httpConnections), "-d", strconv.Itoa(loadSeconds)+"s",
		"--timeout", "10s", "-s", "load.lua", url)
	var r loadReport
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &r); err != nil {
		t.Fatalf("wrk printed %s: %v", out, err)
	}
	return r
}

type disturbance struct{ kills, reloads int }

// disturb kills a random worker every so often, and reloads the pool.
func disturb(t *testing.T, pid int, p pool, done <-chan struct{}) (d disturbance) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ticker := time.NewTicker(killInterval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return d
		case <-ticker.C:
		}
		if workers := descendants(pid, p.depth); len(workers) > 0 {
			if syscall.Kill(workers[random.IntN(len(workers))], syscall.SIGKILL) == nil {
				d.kills++
			}
		}
		if p.reload != 0 && d.kills%killsPerReload == killsPerReload/2 && syscall.Kill(pid, p.reload) == nil {
			d.reloads++
		}
	}
}

// descendants returns the living processes that many generations below pid.
func descendants(pid, depth int) []int {
	generation := map[int]bool{pid: true}
	parents := parentsOfAll()
	for range depth {
		next := map[int]bool{}
		for child, parent := range parents {
			if generation[parent] {
				next[child] = true
			}
		}
		generation = next
	}
	pids := make([]int, 0, len(generation))
	for child := range generation {
		pids = append(pids, child)
	}
	return pids
}

// parentsOfAll returns the parent of every process that has not ended.
func parentsOfAll() map[int]int {
	parents := map[int]int{}
	folders, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range folders {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // ended since
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		// The name in brackets may hold anything; state and parent follow it.
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[0] != "Z" {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	return parents
}

type answer struct {
	status int
	body   string
}

// get returns what a page answers; nothing when nobody does.
func get(url string) answer {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return answer{}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}
	}
	return answer{response.StatusCode, string(body)}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
