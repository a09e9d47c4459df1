package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory/memorytest"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
)

const (
	unprivilegedEnvironment = "NEARCALL_TEST_UNPRIVILEGED"
	// The kernel counts the descriptors that are on the way for each user, so
	// every run has a user of its own.
	firstUserID = 1 << 20
	// The process has this many descriptors, and the user as many on the way.
	descriptorsMax = 100
)

// TestMemoryIsRefusedByTheKernel: a user with too many descriptors on the way is
// given no memory, and loses nothing but that. Root may have any number, so the
// test runs in a process of another user.
func TestMemoryIsRefusedByTheKernel(t *testing.T) {
	if os.Getenv(unprivilegedEnvironment) != "" {
		callWithDescriptorsOnTheWay(t)
		return
	}
	// By this name, because the program's directory is its user's alone.
	child := exec.Command("/proc/self/exe", "-test.run=^TestMemoryIsRefusedByTheKernel$", "-test.v")
	child.Env = append(os.Environ(), unprivilegedEnvironment+"=1", "TMPDIR=/tmp")
	if os.Getuid() == 0 {
		id := uint32(firstUserID + os.Getpid())
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	out, err := child.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS")) {
		t.Fatalf("%v: %s", err, out)
	}
}

func callWithDescriptorsOnTheWay(t *testing.T) {
	var log logLines
	full := sharedmemory.Geometry{Slots: wire.SharedMemorySlots, Marks: wire.SharedMemoryMarks, ArenaBytes: wire.SharedMemoryArenaBytes}
	s, path := serveEcho(t, server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), server.WithSharedMemoryBytesPerUser(full.Bytes()))
	giveBack := sendDescriptors(t)
	c, err := memorytest.Connect(path, testTimeout, wire.FeatureSharedMemory)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 3 * wire.SharedMemoryAfterCalls {
		request := c.Request("echo", fmt.Append(nil, i))
		if err := c.Send(request.Append(nil)); err != nil {
			t.Fatal(err)
		}
		if reply, err := c.Next(); err != nil || reply.Type != wire.Reply || string(reply.Payload) != fmt.Sprint(i) {
			t.Fatalf("call %d: %v %q, %v", i, reply.Type, reply.Payload, err)
		}
	}
	if given := s.Statistics().SharedMemoryTotal; given != 0 {
		t.Errorf("%d connections got memory, want 0", given)
	}
	if text := log.String(); strings.Count(text, "no shared memory") != 1 || !strings.Contains(text, unix.ETOOMANYREFS.Error()) {
		t.Errorf("want one line about the memory and its reason in the log: %s", text)
	}
	giveBack()
	// What was counted for the user is his again.
	if got := connectWithMemory(t, path).Regions.Geometry(); got != full {
		t.Errorf("the next connection got %+v, want %+v", got, full)
	}
}

// sendDescriptors puts as many descriptors on the way as the user may have.
func sendDescriptors(t *testing.T) (giveBack func()) {
	t.Helper()
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	if err == nil {
		limit.Cur = descriptorsMax
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	rights := unix.UnixRights(slices.Repeat([]int{pair[0]}, descriptorsMax/2)...)
	for range 5 {
		if err = unix.Sendmsg(pair[0], []byte{0}, rights, nil, 0); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.ETOOMANYREFS) {
		t.Fatalf("sending descriptors that nobody takes: %v, want %v", err, unix.ETOOMANYREFS)
	}
	return func() {
		unix.Close(pair[0])
		unix.Close(pair[1])
	}
}

// TestReplyWhileMemoryIsGiven: a reply that is ready while MEMORY is being
// written is sent after it.
func TestReplyWhileMemoryIsGiven(t *testing.T) {
	for name, failure := range map[string]error{"given": nil, "refused": transport.ErrNotSent} {
		t.Run(name, func(t *testing.T) {
			s, hold := newServer(t), newGate()
			register(t, s, "echo", func(data []byte) []byte { return data })
			register(t, s, "hold", func([]byte) []byte { hold.wait(); return nil }, server.MaxConcurrency(1))
			path, stop := serve(t, s, func(l net.Listener) net.Listener {
				return &wrappingListener{l, func(conn transport.LocalConn) net.Conn {
					return &slowGiver{conn, failure, func() {
						before := runtime.NumGoroutine()
						close(hold.release)
						awaitFewerGoroutines(before)
					}}
				}}
			})
			c, err := memorytest.Connect(path, testTimeout, wire.FeatureSharedMemory)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			held := c.Request("hold", nil)
			if err := c.Send(held.Append(nil)); err != nil {
				t.Fatal(err)
			}
			<-hold.started
			for range wire.SharedMemoryAfterCalls - 1 {
				request := c.Request("echo", nil)
				if err := c.Send(request.Append(nil)); err != nil {
					t.Fatal(err)
				}
			}
			for reply := (wire.Frame{}); reply.CallID != held.CallID; {
				if reply, err = c.Next(); err != nil {
					t.Fatal("the reply does not come: ", err)
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// awaitFewerGoroutines waits until one of them has ended, but not for ever.
func awaitFewerGoroutines(before int) {
	for until := time.Now().Add(testTimeout / 2); runtime.NumGoroutine() >= before && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
}

type wrappingListener struct {
	net.Listener
	wrap func(transport.LocalConn) net.Conn
}

func (l *wrappingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(unixsocket.Transport{}.Wrap(conn).(transport.LocalConn)), nil
}

// A slowGiver takes its time before it sends descriptors, or does not.
type slowGiver struct {
	transport.LocalConn
	failure error
	delay   func()
}

func (g *slowGiver) SendDescriptors(b []byte, descriptors ...int) error {
	g.delay()
	if g.failure != nil {
		return g.failure
	}
	return g.LocalConn.SendDescriptors(b, descriptors...)
}

// logLines holds what was logged.
type logLines struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}
