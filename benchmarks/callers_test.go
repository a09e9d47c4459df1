package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/benchmarks/report"
)

// A calledBy is a caller, and what it has to report of a run of runLength.
type calledBy struct {
	command   []string
	server    string // its address; the last argument but for numbers
	numbers   []string
	calls     uint64 // 0: any number but none
	perSample uint64
	transport protocol.Transport
}

const (
	runLength = 20 * time.Millisecond
	runsMax   = 100
)

// builtCallers are the programs of a test: those of Go, and those of C with the client
// of this tree.
func builtCallers(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for module, packages := range map[string][]string{".": {"./gocaller", "./bareserver"}, "..": {"./tests/programs/testserver", "./tests/programs/shopserver"}} {
		command := append([]string{"build", "-C", module, "-o", folder + "/"}, packages...)
		if said, err := exec.Command("go", command...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	sources := func(patterns ...string) []string {
		var all []string
		for _, pattern := range patterns {
			found, err := filepath.Glob(pattern)
			if err != nil || len(found) == 0 {
				t.Fatalf("%s: %v, %v", pattern, found, err)
			}
			all = append(all, found...)
		}
		return all
	}
	library := filepath.Join(folder, "libnearcall.so")
	compile(t, library, append(sources("../libnearcall/src/*/*.c"), "-shared", "-fPIC", "-pthread", "-I../libnearcall/include", "-I../libnearcall/src")...)
	with := []string{"-I../libnearcall/include", library, "-Wl,-rpath," + folder}
	own := sources("callers/subject_*.c", "callers/main.c", "callers/caller.c", "callers/protocol.c", "callers/functions.c", "callers/message.c", "callers/allocations.c")
	compile(t, filepath.Join(folder, "caller"), slices.Concat(own, with, []string{"-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc"})...)
	compile(t, filepath.Join(folder, "many"), append(sources("callers/many.c", "callers/protocol.c", "callers/functions.c"), with...)...)
	return folder
}

func TestCallers(t *testing.T) {
	folder := builtCallers(t)
	in := func(name string) string { return filepath.Join(folder, name) }
	t.Run("report what they did", func(t *testing.T) { theyReport(t, in) })
	t.Run("call an application", func(t *testing.T) { theyCallAnApplication(t, in) })
	t.Run("refuse what they cannot", func(t *testing.T) { theyRefuse(t, in) })
	t.Run("visit web servers", func(t *testing.T) { theyVisit(t, in) })
	t.Run("have floors to visit", func(t *testing.T) { floorsAnswer(t, in) })
}

// theyReport tests that each way to call says how many calls it has made, and by what.
func theyReport(t *testing.T, in func(program string) string) {
	nearcall, bare := "unix:"+in("nearcall.sock"), "unix:"+in("bare.sock")
	started(t, in("testserver"), "-address", nearcall)
	started(t, in("bareserver"), in("bare.sock"))
	// A server of which a caller may want echo alone.
	stop, err := serveHere(in("echo.sock"))
	check(t, err)
	t.Cleanup(stop)
	c := func(mode string) []string { return []string{in("caller"), mode} }
	golang := func(mode string) []string { return []string{in("gocaller"), mode} }
	const atLeast, milliseconds = 0, uint64(runLength / time.Millisecond)
	for _, by := range []calledBy{
		{c("raw"), nearcall, []string{"64"}, atLeast, 1, protocol.SharedMemory},
		{c("raw"), nearcall + socketOnly, []string{"64"}, atLeast, 1, protocol.Socket},
		{c("raw"), "unix:" + in("echo.sock"), []string{"64"}, atLeast, 1, protocol.SharedMemory},
		{c("typed"), nearcall, []string{"3"}, atLeast, 1, protocol.SharedMemory},
		{c("pipelined"), nearcall, []string{"64"}, atLeast, 64, protocol.SharedMemory},
		{c("md5"), nearcall, []string{"0"}, atLeast, 1, protocol.SharedMemory},
		{c("simple"), nearcall, []string{"64"}, atLeast, 1, protocol.Unknown},
		{c("simple-reconnect"), nearcall, []string{"65"}, atLeast, 1, protocol.Unknown},
		{c("bare"), bare, []string{"64"}, atLeast, 1, protocol.Unknown},
		{[]string{in("many")}, nearcall, []string{"0", "md5", "5"}, atLeast, 1, protocol.SharedMemory},
		{[]string{in("many")}, nearcall + socketOnly, []string{"0", "one", "5"}, atLeast, 1, protocol.Socket},
		{golang("shared"), nearcall, []string{"64", "3"}, atLeast, 1, protocol.SharedMemory},
		{golang("each"), nearcall + socketOnly, []string{"6", "3", "2"}, 3 * 2 * milliseconds, 1, protocol.Socket},
		{golang("persistent"), nearcall, []string{"64", "3"}, atLeast, 1, protocol.SharedMemory},
		{golang("oneshot-timeout"), nearcall, []string{"64", "2"}, atLeast, 1, protocol.Unknown},
		{golang("bare"), bare, []string{"6", "3", "1"}, 3 * milliseconds, 1, protocol.Unknown},
		{golang("itself-one"), "", []string{"0", "1"}, atLeast, 10_000, protocol.Unknown},
		{[]string{"perl", "-Itestdata/perl", "callers/caller.pl", "alone-one"}, "", []string{"0"}, atLeast, 1000, protocol.Unknown},
		{golang("itself-ack"), "", []string{"0", "1"}, atLeast, 1, protocol.Unknown},
	} {
		t.Run(fmt.Sprint(by.command[1:], by.numbers), func(t *testing.T) { by.check(t) })
	}
}

// theyCallAnApplication tests that each function of the shop answers as its callers expect, who look
// at all of the first answer before they are ready.
func theyCallAnApplication(t *testing.T, in func(program string) string) {
	address := "unix:" + in("shop.sock")
	started(t, in("shopserver"), "-address", address)
	for _, errand := range report.Errands {
		for _, by := range []calledBy{
			{[]string{in("caller"), "app-" + errand}, address, []string{"0"}, 0, 1, protocol.SharedMemory},
			{[]string{in("gocaller"), "app-" + errand}, address, []string{"0", "1"}, 0, 1, protocol.SharedMemory},
			{[]string{in("gocaller"), "itself-app-" + errand}, "", []string{"0", "1"}, 0, 100, protocol.Unknown},
		} {
			t.Run(fmt.Sprint(by.command[1:]), func(t *testing.T) { by.check(t) })
		}
	}
}

// check lets a caller run twice, as what a run leaves behind is none of the next, and
// until it has made as many calls as it takes to be given shared memory.
func (by calledBy) check(t *testing.T) {
	caller := started(t, slices.Concat(by.command, []string{by.server}, by.numbers)...)
	var went []protocol.Transport
	for run := 0; run < 2 || run < runsMax && !slices.Equal(went, []protocol.Transport{by.transport}); run++ {
		r, err := measure([]*process.Process{caller}, clockOf(nil), nil, turn{length: runLength})
		if err != nil {
			t.Fatalf("%v%s", err, caller.Complaints())
		}
		if r.calls == 0 || by.calls != 0 && r.calls != by.calls {
			t.Errorf("%d calls, not %d", r.calls, by.calls)
		}
		if r.perSample != by.perSample || uint64(len(r.samples))*by.perSample != r.calls || r.samples[0] == 0 {
			t.Errorf("%d samples of %d calls", len(r.samples), r.calls)
		}
		went = r.transports
		if r.perSecond <= 0 || *r.callerCPU <= 0 {
			t.Errorf("%v calls a second with %v of CPU", r.perSecond, r.callerCPU)
		}
	}
	if !slices.Equal(went, []protocol.Transport{by.transport}) {
		t.Errorf("the calls went by %v, not by %v", went, by.transport)
	}
}

// theyRefuse tests that callers which are told what they cannot do say so, and do not do
// something else.
func theyRefuse(t *testing.T, in func(program string) string) {
	many, golang := []string{in("many"), "unix:none", "0", "one", "1"}, []string{in("gocaller"), "itself-ack", "", "0", "1"}
	c := []string{in("caller"), "memcpy", "", "64"}
	perl := []string{"perl", "-Itestdata/perl", "callers/caller.pl", "alone-md5", "", "0"}
	python := []string{"python3", "-B", "testdata/timed.py", "call"}
	for _, test := range []struct {
		name    string
		command []string
		tell    string
		refused bool
	}{
		{"Perl", perl, "run 1 0 0", false},
		{"Perl with a rate", perl, "run 1 1000 0", true},
		{"Perl with a time to begin", perl, "run 1 0 1", true},
		{"Perl with more", perl, "run 1 0 0 0", true},
		{"Perl with windows where it times several calls together", perl, "run 1 0 0 1", true},
		{"Python with windows", python, "run 2 0 0 1", false},
		{"Python with windows and a rate", python, "run 2 1000 0 1", true},
		{"many callers with windows", many, "run 1 0 0 1", true},
		{"Go with windows where it may time several calls together", golang, "run 1 0 0 1", true},
		{"C with windows", c, "run 2 0 0 1", false},
		{"C with windows and a rate", c, "run 2 1000 0 1", true},
		{"Python", python, "run 1 0 0", false},
		{"Python with a rate", python, "run 1 1000 1", false},
		{"Python with more than it can", python, "run 1 1000000001", true},
		{"Python with something else", python, "walk 1", true},
		{"many callers with a rate", many, "run 1 1000", true},
		{"many callers with a time to begin", many, "run 1 0 1", true},
		{"Go", golang, "run 1", false},
		{"Go with no time", golang, "run 0", true},
		{"Go with less than no rate", golang, "run 1 -1", true},
		{"Go with more than it can", golang, "run 1 1000000001", true},
		{"Go with a rate where it has none", golang, "run 1 1000", true},
		{"Go with something else", golang, "walk 1", true},
		{"C", c, "run 1 1000", false},
		{"C with no time", c, "run 0", true},
		{"C with more than it can", c, "run 1 1000000001", true},
	} {
		command := exec.Command(test.command[0], test.command[1:]...)
		command.Stdin = strings.NewReader(test.tell + "\n")
		command.Env = append(os.Environ(), "LC_ALL=C") // of a locale that is not there Perl complains
		said := new(strings.Builder)
		command.Stderr = said
		if err := command.Run(); (err != nil) != test.refused || (said.Len() > 0) != test.refused {
			t.Errorf("%s: %v, it said %q", test.name, err, said)
		}
	}
}
