package faults_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
)

// injections are the errors that each system call of a C client's call may
// plausibly return. A call that the library makes and that is not here fails
// the test, as does one that is here and is not made.
var injections = map[string][]string{
	"socket":     {"EMFILE", "ENFILE", "ENOMEM", "EACCES"},
	"ppoll":      {"EINTR", "ENOMEM"},
	"fcntl":      {"EINTR", "EINVAL"},
	"connect":    {"EINTR", "EAGAIN", "ECONNREFUSED", "ENOENT", "EACCES", "ENOMEM"},
	"sendmsg":    {"EINTR", "EAGAIN", "EPIPE", "ECONNRESET", "ENOBUFS", "ENOMEM"},
	"setsockopt": {"ENOMEM", "EINVAL"},
	"getsockopt": {"ENOMEM", "EINVAL"},
	"mmap":       {"ENOMEM", "EAGAIN"},
	"munmap":     {"ENOMEM"},
	"madvise":    {"ENOMEM", "EINVAL"},
	"fstat":      {"ENOMEM", "EACCES"},
	"newfstatat": {"ENOMEM", "EACCES"},
	// What kind of memory a server has sent.
	"fstatfs": {"ENOMEM", "EIO"},
	// How much lies unread in a socket that is closed.
	"ioctl":    {"ENOMEM", "EINVAL"},
	"shutdown": {"ENOTCONN", "ENOMEM"},
	// How many CPUs there are for spinning.
	"sched_getaffinity": {"EINVAL", "ESRCH"},
	// Not failed: the kernel closes the descriptor whatever close returns, and
	// a call that strace fails is not made.
	"close":   {},
	"getpid":  {},
	"recvmsg": {"EINTR", "EAGAIN", "ECONNRESET", "ENOMEM"},
	"sendto":  {"EINTR", "EAGAIN", "EPIPE", "ECONNRESET", "ENOBUFS", "ENOMEM"},
}

// Sometimes made: when a reply does not come at once, a spinner yields its CPU, and
// one that spun in vain moves to another; and what depends on the time.
var sometimes = map[string][]string{
	"sched_yield":       {"EPERM"},
	"sched_setaffinity": {"EINVAL", "EPERM"},
	"getcpu":            {"EFAULT"},
	// Who else wants to run is looked at while calls are hot.
	"openat": {"EMFILE", "ENFILE", "ENOENT", "EACCES", "ENOMEM"},
	"read":   {"EINTR", "EIO", "ENOMEM"},
	"gettid": {},
}

// injectTimeout is far above the 2 s that the program gives each of its calls.
const injectTimeout = 30 * time.Second

// plainHeap makes mallinfo exact: freed memory in a thread's cache counts as
// used otherwise.
const plainHeap = "GLIBC_TUNABLES=glibc.malloc.tcache_count=0"

var marker = regexp.MustCompile(`(?s)getppid\(\).*?\n(.*)getppid\(\)`)

// TestEverySystemCallMayFail lets each system call of a C client fail once, for
// each plausible reason and at each of its occurrences.
func TestEverySystemCallMayFail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	server := processes.StartServer(t, nil, path, built.server)
	defer server.Kill()
	counts := observed(t, path)
	runs := 0
	for name, count := range counts {
		errnos, known := injections[name]
		if !known {
			errnos, known = sometimes[name]
		}
		if !known {
			t.Errorf("the library makes the system call %s, which is not in the list of injections", name)
		}
		for _, errno := range errnos {
			for nth := 1; nth <= count.inside; nth++ {
				inject(t, path, fmt.Sprintf("%s:error=%s:when=%d", name, errno, count.before+nth))
				runs++
			}
		}
	}
	for name := range injections {
		if _, made := counts[name]; !made {
			t.Errorf("%s is in the list of injections, and the library does not make it", name)
		}
	}
	t.Logf("%d runs over %d kinds of system calls", runs, len(counts))
	if runs == 0 {
		t.Error("nothing was injected")
	}
}

type occurrences struct{ before, inside int }

// observed counts the system calls that the program makes between its marks,
// and those of the same kind before them, which injection must pass over.
func observed(t *testing.T, path string) map[string]occurrences {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	output, err := exec.Command("strace", "-E", plainHeap, "-f", "-o", trace, built.once, "unix:"+path).CombinedOutput()
	if err != nil || strings.TrimSpace(string(output)) != "ok" {
		t.Fatalf("without injection: %v: %s", err, output)
	}
	text, err := exec.Command("cat", trace).Output()
	if err != nil {
		t.Fatal(err)
	}
	found := marker.FindSubmatchIndex(text)
	if found == nil {
		t.Fatalf("no marks in the trace:\n%s", text)
	}
	if !strings.Contains(string(text), "F_GET_SEALS") {
		t.Errorf("no seals are asked for: shared memory was not used")
	}
	before, inside := countCalls(text[:found[2]]), countCalls(text[found[2]:found[3]])
	counts := make(map[string]occurrences)
	for name, count := range inside {
		if name != "getppid" && name != "write" {
			counts[name] = occurrences{before[name], count}
		}
	}
	return counts
}

var callName = regexp.MustCompile(`(?m)^\d+ +([a-z0-9_]+)\(`)

func countCalls(trace []byte) map[string]int {
	counts := make(map[string]int)
	for _, match := range callName.FindAllSubmatch(trace, -1) {
		counts[string(match[1])]++
	}
	return counts
}

// inject runs the program with one fault. It must end by itself, in success or
// with a documented error, and leave nothing behind: it checks that itself.
func inject(t *testing.T, path, fault string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), injectTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "strace", "-E", plainHeap, "-f", "-o", "/dev/null", "-e", "inject="+fault, built.once, "unix:"+path)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s", fault, err, output)
	}
}
