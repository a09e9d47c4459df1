package faults_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/tests/processes"
)

// A refusal is a system call that fails, where it is used for shared memory.
type refusal struct {
	number               int
	errno                unix.Errno
	argument, mask, want int
}

// command starts another under the refusal.
func (r refusal) command() []string {
	return []string{built.refuse, strconv.Itoa(r.number), strconv.Itoa(int(r.errno)),
		strconv.Itoa(r.argument), strconv.Itoa(r.mask), strconv.Itoa(r.want)}
}

const (
	everyBit   = 0xFFFFFFFF
	anything   = 0
	sharedFlag = unix.MAP_SHARED
)

func refuseAll(number int, errno unix.Errno) refusal { return refusal{number, errno, 0, anything, 0} }

func refuseAdvice(advice int) refusal {
	return refusal{unix.SYS_MADVISE, unix.EINVAL, 2, everyBit, advice}
}

func refuseCommand(command int) refusal {
	return refusal{unix.SYS_FCNTL, unix.EPERM, 1, everyBit, command}
}

var refuseSharedMapping = refusal{unix.SYS_MMAP, unix.ENOMEM, 3, sharedFlag, sharedFlag}

const (
	overMemory = "shared memory"
	overSocket = "unix socket"
	noMemory   = "no shared memory for a connection"
	fewer      = "there can be fewer connections"
)

// A fallback is a way to be without shared memory, or without all of it.
type fallback struct {
	server    []string // what starts the server
	serverArg []string
	caller    []string // what starts the caller
	transport string
	warnings  int // that the server logs
}

func fallbacks(t *testing.T) map[string]fallback {
	refusedServer := func(r refusal) fallback {
		return fallback{server: r.command(), transport: overSocket, warnings: 1}
	}
	refusedCaller := func(r refusal) fallback { return fallback{caller: r.command(), transport: overSocket} }
	limitedCaller := func(descriptors int) fallback {
		return fallback{caller: []string{"prlimit", fmt.Sprintf("--nofile=%d", descriptors)}, transport: overSocket}
	}
	smallFiles := []string{"prlimit", "--fsize=1000"}
	noArenas := refuseAdvice(unix.MADV_POPULATE_WRITE).command()
	return map[string]fallback{
		"nothing":                                       {transport: overMemory},
		"server: memfd_create ENOSYS":                   refusedServer(refuseAll(unix.SYS_MEMFD_CREATE, unix.ENOSYS)),
		"server: memfd_create EPERM":                    refusedServer(refuseAll(unix.SYS_MEMFD_CREATE, unix.EPERM)),
		"server: memfd_create EMFILE":                   refusedServer(refuseAll(unix.SYS_MEMFD_CREATE, unix.EMFILE)),
		"server: ftruncate EFBIG":                       refusedServer(refuseAll(unix.SYS_FTRUNCATE, unix.EFBIG)),
		"server: fallocate ENOSPC":                      refusedServer(refuseAll(unix.SYS_FALLOCATE, unix.ENOSPC)),
		"server: mmap ENOMEM":                           refusedServer(refuseSharedMapping),
		"server: F_ADD_SEALS EPERM":                     refusedServer(refuseCommand(unix.F_ADD_SEALS)),
		"server: MADV_DONTFORK EINVAL":                  refusedServer(refuseAdvice(unix.MADV_DONTFORK)),
		"server: MADV_POPULATE_WRITE EINVAL":            {server: noArenas, transport: overMemory},
		"server: RLIMIT_NOFILE":                         {server: []string{"prlimit", limitOfServer(t)}, transport: overSocket, warnings: 1},
		"server: RLIMIT_FSIZE":                          {server: smallFiles, transport: overSocket, warnings: 1},
		"caller: RLIMIT_FSIZE":                          {caller: smallFiles, transport: overMemory},
		"server: the user's share, no arenas":           {serverArg: []string{"-shared-memory-bytes-per-user", "60000"}, transport: overMemory},
		"server: the user's share, nothing":             {serverArg: []string{"-shared-memory-bytes-per-user", "1"}, transport: overSocket, warnings: 1},
		"caller: F_GET_SEALS EPERM":                     refusedCaller(refuseCommand(unix.F_GET_SEALS)),
		"caller: mmap ENOMEM":                           refusedCaller(refuseSharedMapping),
		"caller: MADV_DONTFORK EINVAL":                  refusedCaller(refuseAdvice(unix.MADV_DONTFORK)),
		"caller: MADV_POPULATE_WRITE EINVAL":            {caller: noArenas, transport: overMemory},
		"caller: RLIMIT_NOFILE, no region is received":  limitedCaller(callerDescriptors),
		"caller: RLIMIT_NOFILE, one region is received": limitedCaller(callerDescriptors + 1),
	}
}

// callerDescriptors are those of a caller that is connected: the standard ones and
// its socket.
const callerDescriptors = 4

// limitOfServer returns the limit under which a server can serve one connection,
// look for the next, and have one region, though a connection needs two.
func limitOfServer(t *testing.T) string {
	path := processes.Socket(t)
	p := processes.StartServer(t, nil, path, built.server)
	defer p.Kill()
	return fmt.Sprintf("--nofile=%d", p.Descriptors(t)+2)
}

// TestFallbacks takes one thing after the other away from shared memory. The
// answers are always those of the socket.
func TestFallbacks(t *testing.T) {
	for name, f := range fallbacks(t) {
		t.Run(name, func(t *testing.T) {
			log := &processes.Log{}
			path := processes.Socket(t)
			server := processes.StartServer(t, log, path, append(append(f.server, built.server), f.serverArg...)...)
			want, transport := callList(t, nil, path+"?shm=off")
			if transport != overSocket {
				t.Errorf("with shm=off the calls travelled over %q", transport)
			}
			// Twice: one line in the log is enough.
			for range 2 {
				got, transport := callList(t, f.caller, path)
				compare(t, got, want)
				if transport != f.transport {
					t.Errorf("the calls travelled over %q, want %q", transport, f.transport)
				}
			}
			server.Kill()
			if warnings := log.Lines(""); len(warnings) != f.warnings+len(log.Lines(fewer)) || len(log.Lines(noMemory)) != f.warnings {
				t.Errorf("the server logged %q, want %d warnings", warnings, f.warnings)
			}
		})
	}
}

// callList makes the list of calls and returns what came of them.
func callList(t *testing.T, starter []string, path string) (answers []string, transport string) {
	t.Helper()
	command := append(starter[:len(starter):len(starter)], built.callList, "unix:"+path)
	output, err := exec.Command(command[0], command[1:]...).Output()
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	last := len(lines) - 1
	transport, told := strings.CutPrefix(lines[last], "transport: ")
	if !told || last < 100 {
		t.Fatalf("%v said %q", command, output)
	}
	return lines[:last], transport
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("%d answers, the one numbered %d differs: %q, over the socket %q", len(got), i, got[min(i, len(got)-1)], want[i])
			return
		}
	}
}
