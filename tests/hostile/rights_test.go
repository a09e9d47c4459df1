package hostile_test

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory/memorytest"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/tests/processes"
)

const (
	defaultTraps  = 600
	trapsEach     = 5
	trapTimeout   = 20 * time.Second
	threadsMore   = 40
	afterwards    = time.Second // threads that are held up are counted for so long
	heldUpAtMost  = 500 * time.Millisecond
	heldUpMostly  = 20 * time.Millisecond
	fullMessage   = rights.MessageMax
	fullMessages  = 300
	withFilesFlag = "-files"
)

// A trapAttack is what a caller does with descriptors that make who closes them wait.
type trapAttack struct {
	name     string
	features wire.Feature
	greets   bool
}

var trapAttacks = []trapAttack{
	{name: "before the hello"},
	{name: "after the hello", greets: true},
	{name: "where files are agreed to", greets: true, features: wire.FeatureDescriptors},
}

// TestTrapsHoldUpNobody: descriptors whose closing waits, sent to a server in every state of
// a connection, on every kind of kernel, cost neither threads nor anybody's time.
func TestTrapsHoldUpNobody(t *testing.T) {
	program := filepath.Join(t.TempDir(), "testserver")
	if err := processes.BuildServer(program); err != nil {
		t.Fatal(err)
	}
	attackWithTraps(t, program)
}

// TestTrapsHoldUpNobodyOnAnEventLoop is the same for the other engine.
func TestTrapsHoldUpNobodyOnAnEventLoop(t *testing.T) {
	program := filepath.Join(t.TempDir(), "eventserver")
	if err := processes.Run("go", "build", "-C", processes.Root+"/server/eventloop", "-o", program, "./eventserver"); err != nil {
		t.Fatal(err)
	}
	attackWithTraps(t, program)
}

func attackWithTraps(t *testing.T, program string) {
	count := processes.Setting(t, "NEARCALL_TRAPS", defaultTraps)
	for name, start := range map[string]func(testing.TB, *processes.Log, string, ...string) *processes.Process{
		"this kernel": processes.StartServer, "old kernel": processes.StartServerOnOldKernel,
	} {
		for _, attack := range trapAttacks {
			t.Run(name+" "+attack.name, func(t *testing.T) {
				path := processes.Socket(t)
				server := start(t, &processes.Log{}, path, program, withFilesFlag)
				defer server.Kill()
				underAttack(t, server, path, func() { attack.run(t, server, path, count) })
			})
		}
	}
}

// TestManyDescriptorsHoldUpNobody: nor do many ordinary ones with each message.
func TestManyDescriptorsHoldUpNobody(t *testing.T) {
	program := filepath.Join(t.TempDir(), "testserver")
	if err := processes.BuildServer(program); err != nil {
		t.Fatal(err)
	}
	path := processes.Socket(t)
	server := processes.StartServerOnOldKernel(t, &processes.Log{}, path, program)
	defer server.Kill()
	underAttack(t, server, path, func() {
		for range fullMessages {
			c, err := memorytest.Connect(path, trapTimeout, 0)
			if err != nil {
				t.Error(err)
				return
			}
			// The server ends the connection.
			_, _, _ = c.Conn.WriteMsgUnix([]byte("x"), unix.UnixRights(make([]int, fullMessage)...), nil)
			_ = c.Close()
		}
	})
}

// underAttack watches a server's threads, and how long others wait for their calls.
func underAttack(t *testing.T, server *processes.Process, path string, attack func()) {
	t.Helper()
	c, err := memorytest.Connect(path, trapTimeout, wire.FeatureSharedClock)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	threads, most := server.Threads(t), 0
	var over atomic.Pointer[time.Time] // when the attack was
	var attackers sync.WaitGroup
	attackers.Go(func() {
		attack()
		now := time.Now()
		over.Store(&now)
	})
	defer attackers.Wait()
	var took []time.Duration
	var end time.Time
	for end.IsZero() || time.Now().Before(end) {
		if since := over.Load(); end.IsZero() && since != nil {
			end = since.Add(afterwards)
		}
		begin := time.Now()
		request := c.Request("echo", []byte("x"))
		if err := c.Put(&request); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Next(); err != nil {
			t.Fatalf("after %d calls one is not answered within %v: %v", len(took), trapTimeout, err)
		}
		// The attack may have stopped the server: what counts is the time after that.
		if since := over.Load(); since != nil {
			took = append(took, min(time.Since(begin), time.Since(*since)))
		}
		most = max(most, server.Threads(t)-threads)
	}
	slices.Sort(took)
	median, worst := took[len(took)/2], took[len(took)-1]
	t.Logf("%d calls of another took %v, the longest %v; %d more threads", len(took), median, worst, most)
	if most > threadsMore || median > heldUpMostly || worst > heldUpAtMost {
		t.Errorf("more than %d more threads, %v for a call, or %v for one of them", threadsMore, heldUpMostly, heldUpAtMost)
	}
}

// run leaves so many traps to the server, which is stopped meanwhile: so that it has the last
// reference of each.
func (a trapAttack) run(t *testing.T, server *processes.Process, path string, count int) {
	trapper := rightstest.NewTrapper(t)
	var sockets []int
	defer func() {
		for _, socket := range sockets {
			unix.Close(socket)
		}
	}()
	for range count / trapsEach {
		socket, err := a.connect(path)
		if err != nil {
			t.Error(err)
			return
		}
		sockets = append(sockets, socket)
	}
	server.Stop(t)
	defer server.Continue()
	for _, socket := range sockets {
		for range trapsEach {
			if err := sendTrap(socket, trapper); err != nil {
				t.Error(err)
				return
			}
		}
	}
}

func (a trapAttack) connect(path string) (int, error) {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Connect(socket, &unix.SockaddrUnix{Name: path})
	if err == nil && a.greets {
		hello := wire.Hello{VersionMin: wire.Version, VersionMax: wire.Version, Offered: a.features, FrameBytesMax: wire.FrameBytesMax}
		_, err = unix.Write(socket, hello.Append(nil))
		if err == nil {
			_, err = unix.Read(socket, make([]byte, wire.HelloBytesMax))
		}
	}
	if err != nil {
		unix.Close(socket)
	}
	return socket, err
}

// sendTrap leaves the trap to the receiver.
func sendTrap(socket int, trapper *rightstest.Trapper) error {
	trap, err := trapper.Make()
	if err != nil {
		rights.Close(trap)
		return err
	}
	err = unix.Sendmsg(socket, []byte("x"), unix.UnixRights(trap), nil, unix.MSG_NOSIGNAL)
	if err == nil {
		return unix.Close(trap)
	}
	rights.Close(trap)
	for _, refused := range []error{unix.EPERM, unix.EPIPE, unix.ECONNRESET} {
		if errors.Is(err, refused) {
			return nil
		}
	}
	return err
}
