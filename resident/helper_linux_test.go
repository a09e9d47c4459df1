package resident_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/place"
	"github.com/nearcall/nearcall/resident/internal/request"
	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// variableLaunch makes a launcher of this test's program: for one that has limits,
// groups or namespaces of its own.
const variableLaunch = "RESIDENT_TEST_LAUNCH"

// variableLower is what that launcher has as Lower.
const variableLower = "RESIDENT_TEST_LOWER"

// codePlainly is what that launcher ends with when nothing was done.
const codePlainly = 99

// patience is for what needs no time at all on a machine that is not busy.
const patience = 30 * time.Second

// readOnce are variables with which a run is run plainly when they have another value.
var readOnce = []string{"TZ", "LD_PRELOAD", "LD_LIBRARY_PATH", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}

// built is the test program.
var built string

func TestMain(m *testing.M) {
	if path := os.Getenv(variableLaunch); path != "" {
		os.Exit(launch(path))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	// What nohup, or a shell that puts this into the background, had ignored is not
	// what is tested: a signal that is caught here is at its default in what is started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	// Nor are the variables that programs read only once and these tests set.
	for _, name := range readOnce {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	// With the race detector each process would linger for a second at its end.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	directory, err := os.MkdirTemp("", "resident-test-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(directory) }()
	built = filepath.Join(directory, "testprogram")
	arguments := []string{"build", "-o", built}
	if raceEnabled {
		arguments = append(arguments, "-race")
	}
	if output, err := exec.Command("go", append(arguments, "./internal/testprogram")...).CombinedOutput(); err != nil {
		panic(string(output))
	}
	return m.Run()
}

func launch(path string) int {
	directory, err := os.Getwd()
	if err != nil {
		return 98
	}
	lower, _ := strconv.ParseUint(os.Getenv(variableLower), 10, 64) // 0 where there is none
	_, _ = os.Unsetenv(variableLaunch), os.Unsetenv(variableLower)
	outcome, err := testlauncher.Launch{
		Program: path, Lower: lower, Args: os.Args[1:], Dir: directory, Files: [3]*os.File{os.Stdin, os.Stdout, os.Stderr},
	}.Run()
	switch {
	case err != nil:
		fmt.Println("launcher:", err)
		return 98
	case outcome.Plainly != "":
		fmt.Println("plainly:", outcome.Plainly)
		return codePlainly
	}
	return outcome.Code
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eachMode runs a test with a program of each mode.
func eachMode(t *testing.T, test func(t *testing.T, mode, path string)) {
	for _, mode := range []string{"pool", "serial", "concurrent"} {
		t.Run(mode, func(t *testing.T) { test(t, mode, program(t, mode)) })
	}
}

// program returns a program of its own in a mode, whose residents end with the test.
// Its environment is what its resident is started with, if given before the first run.
func program(t *testing.T, mode string) string {
	t.Helper()
	short, err := os.MkdirTemp("", "nr-") // t.TempDir is too long for the path of a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	t.Setenv("XDG_RUNTIME_DIR", short)
	path := filepath.Join(t.TempDir(), "testprogram."+mode)
	must(t, exec.Command("cp", built, path).Run())
	t.Cleanup(func() { endResidents(t) })
	return path
}

func endResidents(t *testing.T) {
	directory, err := place.Directory()
	must(t, err)
	places, err := place.List(directory)
	must(t, err)
	for _, p := range places {
		if report, err := ask(p, request.Stop); err == nil {
			awaitEnd(t, report.ProcessID)
		}
	}
	logs, _ := filepath.Glob(filepath.Join(directory, "*.log"))
	for _, log := range logs {
		text, _ := os.ReadFile(log)
		if t.Logf("%s", text); bytes.Contains(text, []byte("DATA RACE")) {
			t.Error("the resident has a data race")
		}
	}
}

// A report is what a resident tells of itself.
type report struct {
	ProcessID int    `json:"pid"`
	Mode      string `json:"mode"`
	Runs      int    `json:"runs"`
	Running   int    `json:"running"`
	Waiting   int    `json:"waiting"`
	IdleMS    int    `json:"idle_ms"`
	Leaving   bool   `json:"leaving"`
}

func ask(p place.Place, kind request.Kind) (report, error) {
	conn, err := net.Dial("unix", p.Socket())
	if err != nil {
		return report{}, err
	}
	defer func() { _ = conn.Close() }()
	b, err := request.Request{Header: request.Header{Kind: kind}}.Append(nil)
	if err == nil {
		_, err = conn.Write(b)
	}
	if err != nil {
		return report{}, err
	}
	frame, err := channel.ReadFrame(conn)
	if err == nil && frame.Type != request.Report {
		err = fmt.Errorf("a frame of type %d", frame.Type)
	}
	if err != nil {
		return report{}, err
	}
	var r report
	return r, json.Unmarshal([]byte(frame.Text), &r)
}

// startResident starts it with this process's environment, unless it runs.
func startResident(t *testing.T, path string) {
	t.Helper()
	conn, err := testlauncher.Connect(path, os.Environ())
	must(t, err)
	must(t, conn.Close())
}

// status asks the resident of a program, which must be there.
func status(t *testing.T, path string) report {
	t.Helper()
	r, err := ask(placeOf(t, path), request.Status)
	must(t, err)
	return r
}

func placeOf(t *testing.T, path string) place.Place {
	t.Helper()
	p, err := place.Of(path)
	must(t, err)
	return p
}

// await waits for what nobody tells of.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// awaitEnd waits until a process is no more, or was not reaped by somebody else.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	await(t, fmt.Sprintf("the end of process %d", pid), func() bool { return !alive(pid) })
}

func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(text, []byte(") "))
	return len(state) > 0 && state[0] != 'Z'
}

// awaitGone waits until a file is no more.
func awaitGone(t *testing.T, path string) {
	t.Helper()
	await(t, "the removal of "+path, func() bool {
		_, err := os.Lstat(path)
		return errors.Is(err, os.ErrNotExist)
	})
}

// run runs a program and returns what it printed on both outputs.
func run(t *testing.T, l testlauncher.Launch) (stdout, stderr string, outcome testlauncher.Outcome) {
	t.Helper()
	output, errors := collect(t, &l.Files[1]), collect(t, &l.Files[2])
	outcome, err := l.Run()
	must(t, err)
	return output(), errors(), outcome
}

// collect makes a pipe, and returns what returns all that was written to it.
func collect(t *testing.T, end **os.File) func() string {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	*end = w
	text := make(chan string, 1)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, r)
		_ = r.Close()
		text <- b.String()
	}()
	return func() string {
		_ = w.Close()
		return <-text
	}
}

// A begun is a run that goes on.
type begun struct {
	*testlauncher.Run
	t      *testing.T
	output *bufio.Reader
	reader *os.File // of the output
	input  *os.File
	stderr func() string
}

// begin returns when the run has begun.
func begin(t *testing.T, l testlauncher.Launch) *begun {
	t.Helper()
	b := &begun{t: t}
	input, inputEnd, err := os.Pipe()
	must(t, err)
	output, outputEnd, err := os.Pipe()
	must(t, err)
	b.input, b.output, b.reader = inputEnd, bufio.NewReader(output), output
	t.Cleanup(func() { _, _ = inputEnd.Close(), output.Close() })
	l.Files[0], l.Files[1] = input, outputEnd
	b.stderr = collect(t, &l.Files[2])
	started, outcome, err := l.Start()
	must(t, errors.Join(err, input.Close(), outputEnd.Close()))
	if outcome != nil {
		t.Fatalf("it is to be run plainly: %s", outcome.Plainly)
	}
	b.Run = started
	return b
}

func (b *begun) line() string {
	b.t.Helper()
	must(b.t, b.reader.SetReadDeadline(time.Now().Add(patience)))
	line, err := b.output.ReadString('\n')
	must(b.t, err)
	return strings.TrimSuffix(line, "\n")
}

func (b *begun) wait() testlauncher.Outcome {
	b.t.Helper()
	must(b.t, b.Conn.SetReadDeadline(time.Now().Add(patience)))
	outcome, err := b.Wait()
	must(b.t, err)
	return outcome
}

// signal passes a signal on, when the program says that it waits for it.
func (b *begun) signal(s syscall.Signal) {
	b.t.Helper()
	must(b.t, b.Signal(s))
}

// expect compares outcomes.
func expect(t *testing.T, got, want testlauncher.Outcome) {
	t.Helper()
	if got != want {
		t.Errorf("it ended with %+v and not with %+v", got, want)
	}
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	must(t, err)
	return n
}
