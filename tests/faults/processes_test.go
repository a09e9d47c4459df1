package faults_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// root is the repository as seen from this package.
const root = "../.."

// programs are built once for all tests of the package.
type programs struct {
	server string
	ledger string
	once   string
	caller string // the ledger's caller in Go
}

var built programs

func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "nearcall-faults")
	if err == nil {
		built, err = build(directory)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(directory)
	os.Exit(code)
}

func build(directory string) (programs, error) {
	p := programs{
		server: filepath.Join(directory, "testserver"),
		ledger: filepath.Join(directory, "ledger"),
		once:   filepath.Join(directory, "one_call"),
		caller: filepath.Join(directory, "gocaller"),
	}
	commands := [][]string{
		{"make", "-C", root + "/libnearcall", "--no-print-directory"},
		{"go", "build", "-o", p.server, root + "/internal/testserver"},
		{"go", "build", "-o", p.caller, "./gocaller"},
		compile("ledger", p.ledger),
		compile("one_call", p.once),
	}
	for _, command := range commands {
		if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return p, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, output)
		}
	}
	return p, nil
}

func compile(name, target string) []string {
	return []string{
		"gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I", root + "/libnearcall/include",
		"-o", target, filepath.Join("callers", name+".c"), root + "/build/lib/libnearcall.a",
	}
}

// A process is a child that the test may kill at any time.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func start(t testing.TB, name string, arguments ...string) *process {
	t.Helper()
	command := exec.Command(name, arguments...)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return &process{command, bufio.NewScanner(output)}
}

// startServer starts a testserver and waits until it listens.
func startServer(t testing.TB, path string, arguments ...string) *process {
	t.Helper()
	p := start(t, built.server, append([]string{"-address", "unix:" + path}, arguments...)...)
	if !p.lines.Scan() || !strings.HasPrefix(p.lines.Text(), "ready") {
		t.Fatalf("testserver did not start: %q", p.lines.Text())
	}
	return p
}

func (p *process) kill() {
	p.Process.Signal(syscall.SIGKILL)
	p.Wait()
}
