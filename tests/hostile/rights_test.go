package hostile_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

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
	fullMessage   = rights.MessageMax
	fullMessages  = 300
	manyEach      = 20 // to so few connections that each may have a thread
	roomFor       = 30 // descriptors to a message, where a server is to have them all
	roomLeft      = 4
	withFilesFlag = "-files"
	heldPipes     = 8 // as many threads close them
	openMax       = 2000
)

// A trapAttack is what a caller does with descriptors that make who closes them wait.
type trapAttack struct {
	name     string
	features wire.Feature
	greets   bool
	each     int  // traps to a connection, each in a message of its own
	before   int  // ordinary descriptors in that, before the trap
	noRoom   bool // the server can have none but the first of them
	readers  int  // that may each need a thread for a moment, beyond threadsMore
}

var trapAttacks = []trapAttack{
	{name: "before the hello", each: trapsEach},
	{name: "after the hello", each: trapsEach, greets: true},
	{name: "where files are agreed to", each: trapsEach, greets: true, features: wire.FeatureDescriptors},
}

// TestTrapsHoldUpNobody: descriptors whose closing waits, sent to a server in every state of
// a connection, on every kind of kernel, cost neither threads nor anybody's time.
func TestTrapsHoldUpNobody(t *testing.T) {
	attackWithTraps(t, buildServer(t))
}

// TestTrapsHoldUpNobodyOnAnEventLoop is the same for the other engine.
func TestTrapsHoldUpNobodyOnAnEventLoop(t *testing.T) {
	program := filepath.Join(t.TempDir(), "eventserver")
	if err := processes.Run("go", "build", "-C", processes.Root+"/server/eventloop", "-o", program, "./eventserver"); err != nil {
		t.Fatal(err)
	}
	attackWithTraps(t, program)
}

func buildServer(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "testserver")
	if err := processes.BuildServer(program); err != nil {
		t.Fatal(err)
	}
	return program
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
				attack.holdsUpNobody(t, server, path, count)
			})
		}
	}
}

// TestManyDescriptorsHoldUpNobody: nor do many with each message, which are closed in the
// call that receives them where the server has no room for more.
func TestManyDescriptorsHoldUpNobody(t *testing.T) {
	program := buildServer(t)
	start := func(t *testing.T) (*processes.Process, string) {
		path := processes.Socket(t)
		server := processes.StartServerOnOldKernel(t, &processes.Log{}, path, program)
		t.Cleanup(server.Kill)
		return server, path
	}
	t.Run("one after the other", func(t *testing.T) {
		server, path := start(t)
		w := watch(t, server, path)
		quiet := w.callsDuring(t, func() { flood(t, path, 0) })
		w.judge(t, quiet, w.callsDuring(t, func() { flood(t, path, fullMessage) }))
	})
	t.Run("with a trap", func(t *testing.T) {
		server, path := start(t)
		// All who receive wait while the kernel makes its table of descriptors larger.
		trapAttack{each: 1, before: roomFor - 1, readers: fullMessages}.holdsUpNobody(t, server, path, fullMessages)
	})
	t.Run("more than there is room for", func(t *testing.T) {
		server, path := start(t)
		trapAttack{each: manyEach, before: fullMessage - 1, noRoom: true}.holdsUpNobody(t, server, path, defaultTraps)
	})
}

// TestHeldPipesLeaveDescriptors: pipes whose closing waits, and others behind them, do not take
// all descriptors that a server may have.
func TestHeldPipesLeaveDescriptors(t *testing.T) {
	program := buildServer(t)
	for name, flood := range map[string]func(t *testing.T, path string, pipe int){
		"unasked": floodUnasked, "with requests": floodRequests,
	} {
		t.Run(name, func(t *testing.T) {
			path := processes.Socket(t)
			server := processes.StartServerOnOldKernel(t, &processes.Log{}, path, program, withFilesFlag)
			t.Cleanup(server.Kill)
			before := server.Descriptors(t)
			for range heldPipes {
				end, letGo := rightstest.HeldPipe(t)
				defer letGo()
				giveAway(t, server, path, end)
			}
			var pipe [2]int
			must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
			defer unix.Close(pipe[0])
			defer unix.Close(pipe[1])
			flood(t, path, pipe[0])
			last, err := memorytest.Connect(path, trapTimeout, 0)
			must(t, err)
			defer last.Close()
			if open := server.Descriptors(t); open > before+openMax {
				t.Errorf("the server has %d descriptors open, it had %d", open, before)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// floodUnasked sends messages with as many pipes as they may bring.
func floodUnasked(t *testing.T, path string, pipe int) {
	for range fullMessages {
		c, err := memorytest.Connect(path, trapTimeout, 0)
		must(t, err)
		sendUnasked(t, c, slices.Repeat([]int{pipe}, fullMessage)...)
		wantRefusal(t, c)
		must(t, c.Close())
	}
}

// giveAway leaves the last reference of a descriptor to the server, unasked.
func giveAway(t *testing.T, server *processes.Process, path string, number int) {
	t.Helper()
	c, err := memorytest.Connect(path, trapTimeout, 0)
	must(t, err)
	defer c.Close()
	server.Stop(t)
	defer server.Continue()
	sendUnasked(t, c, number)
	must(t, unix.Close(number))
	server.Continue()
	wantRefusal(t, c)
}

func sendUnasked(t *testing.T, c *memorytest.Caller, numbers ...int) {
	t.Helper()
	_, _, err := c.Conn.WriteMsgUnix([]byte("x"), unix.UnixRights(numbers...), nil)
	must(t, err)
}

func wantRefusal(t *testing.T, c *memorytest.Caller) {
	t.Helper()
	frame, err := c.Next()
	must(t, err)
	if frame.Type != wire.Error {
		t.Fatalf("the server says %v to descriptors that were not agreed to", frame.Type)
	}
}

// floodRequests sends pipes with requests of a function that takes none, until the server ends the
// connection.
func floodRequests(t *testing.T, path string, pipe int) {
	const perFrame = wire.FileDescriptorsPerFrameMax
	c, err := memorytest.Connect(path, trapTimeout, wire.FeatureDescriptors)
	must(t, err)
	defer c.Close()
	for range fullMessages {
		request := c.Request("echo", nil)
		request.Descriptors = perFrame
		_, _, err := c.Conn.WriteMsgUnix(request.Append(nil), unix.UnixRights(slices.Repeat([]int{pipe}, perFrame)...), nil)
		if err != nil {
			return
		}
		if reply, err := c.Next(); err != nil || reply.Type != wire.Reply {
			return
		}
	}
}

// flood sends messages with so many ordinary descriptors, each over a connection of its own.
func flood(t *testing.T, path string, count int) {
	for range fullMessages {
		c, err := memorytest.Connect(path, trapTimeout, 0)
		if err != nil {
			t.Error(err)
			return
		}
		// The server may have ended the connection.
		_, _, _ = c.Conn.WriteMsgUnix([]byte("x"), unix.UnixRights(make([]int, count)...), nil)
		_ = c.Close()
	}
}

// holdsUpNobody calls a server before it finds what is left to it, and from then on.
func (a trapAttack) holdsUpNobody(t *testing.T, server *processes.Process, path string, count int) {
	t.Helper()
	w := watch(t, server, path)
	w.threadsMax = threadsMore + a.readers
	quiet := w.callsFor(t, measured)
	a.run(t, server, path, count)
	w.judge(t, quiet, w.callsFor(t, measured))
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
	for range count / a.each {
		socket, err := a.connect(path)
		if err != nil {
			t.Error(err)
			return
		}
		sockets = append(sockets, socket)
	}
	server.Stop(t)
	defer server.Continue()
	if a.noRoom {
		leaveRoom(t, server)
	}
	for _, socket := range sockets {
		for range a.each {
			if err := a.send(socket, trapper); err != nil {
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

// leaveRoom lets a server have few descriptors more.
func leaveRoom(t *testing.T, server *processes.Process) {
	t.Helper()
	has := uint64(server.Descriptors(t) + roomLeft)
	if err := unix.Prlimit(server.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: has, Max: has}, nil); err != nil {
		t.Fatal(err)
	}
}

// send leaves a trap to the receiver, after some ordinary descriptors.
func (a trapAttack) send(socket int, trapper *rightstest.Trapper) error {
	trap, err := trapper.Make()
	if err != nil {
		rights.Close(trap)
		return err
	}
	err = unix.Sendmsg(socket, []byte("x"), unix.UnixRights(append(make([]int, a.before), trap)...), nil, unix.MSG_NOSIGNAL)
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
