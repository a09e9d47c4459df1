package server_test

import (
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// pendingMax is how many calls may be in flight where replies with files wait.
const pendingMax = 3

const refusalTimeout = 2 * time.Second

// serveFilesOfReplies serves "open", whose replies fill any socket, to calls that run
// apart; runs counts them.
func serveFilesOfReplies(t *testing.T, runs *atomic.Int64, wrap func(transport.LocalConn) net.Conn) *caller {
	t.Helper()
	s := newServer(t, server.WithFileDescriptors(nil), server.WithCallsInFlight(pendingMax, 100), server.WithWriteTimeout(time.Minute))
	data := make([]byte, 2<<20)
	register(t, s, "open", func() (*os.File, []byte, error) {
		runs.Add(1)
		file, err := os.Open(os.DevNull)
		return file, data, err
	}, server.MaxConcurrency(100))
	path, stop := serve(t, s, func(l net.Listener) net.Listener { return &wrappingListener{l, wrap} })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return connectWithFiles(t, path)
}

// wantAnswers reads the answers of calls, of which ran were run.
func (c *caller) wantAnswers(calls, ran int) {
	c.t.Helper()
	replies := 0
	for range calls {
		frame := c.next()
		if frame.Descriptors > 0 {
			replies++
			continue
		}
		_, _, failure := c.decode(frame)
		wantFailure(c.t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
	}
	if replies != ran {
		c.t.Errorf("%d replies with files to %d runs", replies, ran)
	}
}

// fillUp calls until calls are not run any more, and returns how many were made.
func (c *caller) fillUp(runs *atomic.Int64) (calls int) {
	c.t.Helper()
	const enough = 5 * pendingMax
	for calls < enough && runs.Load() == int64(calls) {
		c.beginMany(1, "open")
		calls++
		// One that is refused is seen by nothing but that it does not run.
		for until := time.Now().Add(refusalTimeout); runs.Load() < int64(calls) && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
	}
	return calls
}

// A call is in flight while its reply waits for the ones before it, which a caller does
// not read: with files, too.
func TestRepliesWithFilesThatWaitAreCalls(t *testing.T) {
	var runs atomic.Int64
	c := serveFilesOfReplies(t, &runs, func(conn transport.LocalConn) net.Conn { return conn })
	calls := c.fillUp(&runs)
	// One reply is being written, and its call is in flight no more.
	ran := runs.Load()
	if ran > pendingMax+1 {
		t.Errorf("%d calls ran for a caller that does not read, want at most %d", ran, pendingMax+1)
	}
	c.wantAnswers(calls, int(ran))
	c.beginMany(1, "open")
	c.wantAnswers(1, 1)
}

// A fullKernel passes descriptors on when there is room, and counts how often there was
// none.
type fullKernel struct {
	transport.LocalConn
	room    *atomic.Bool
	refused *atomic.Int64
}

func (k *fullKernel) SendDescriptors(b []byte, descriptors ...int) error {
	if !k.room.Load() {
		k.refused.Add(1)
		return transport.ErrNotSent
	}
	return k.LocalConn.SendDescriptors(b, descriptors...)
}

// The same goes for a reply that the kernel does not take yet; afterwards its place is
// free before it can be seen.
func TestRepliesThatAreRefusedAreCalls(t *testing.T) {
	var runs, refused atomic.Int64
	var room atomic.Bool
	c := serveFilesOfReplies(t, &runs, func(conn transport.LocalConn) net.Conn {
		return &fullKernel{conn, &room, &refused}
	})
	calls := c.fillUp(&runs)
	ran := runs.Load()
	// While one is being tried again its place is free.
	if ran > pendingMax+1 {
		t.Errorf("%d calls ran though no reply can be sent, want at most %d", ran, pendingMax+1)
	}
	for range 5 * pendingMax { // each of which comes at another moment
		c.beginMany(1, "open")
		calls++
		tried := refused.Load()
		waitFor(t, "replies to be refused again", func() bool { return refused.Load() > tried+pendingMax })
	}
	if ran = runs.Load(); ran > pendingMax+1 {
		t.Errorf("%d calls ran after all", ran)
	}
	room.Store(true)
	c.wantAnswers(calls, int(ran))
	for range 20 {
		c.beginMany(pendingMax, "open")
		c.wantAnswers(pendingMax, pendingMax)
	}
}

// Calls whose replies wait end with their connection.
func TestRepliesWithFilesEndWithTheConnection(t *testing.T) {
	var runs, refused atomic.Int64
	c := serveFilesOfReplies(t, &runs, func(conn transport.LocalConn) net.Conn {
		return &fullKernel{conn, new(atomic.Bool), &refused}
	})
	before := openDescriptors(t)
	c.beginMany(2*pendingMax, "open")
	waitFor(t, "replies to be refused", func() bool { return refused.Load() >= 3*pendingMax })
	c.conn.Close()
	wantNoneLeft(t, before-2) // both ends of the connection
}

// The place of a call whose files could not be sent is free when its caller is told.
func TestLostReplyGivesItsPlaceBack(t *testing.T) {
	var room atomic.Bool
	s := fileServer(t, server.WithCallsInFlight(1, 100), server.WithWriteTimeout(time.Millisecond))
	register(t, s, "open_apart", func() (*os.File, error) { return os.Open(os.DevNull) }, server.MaxConcurrency(100))
	path, _ := serve(t, s, func(l net.Listener) net.Listener {
		return &wrappingListener{l, func(conn transport.LocalConn) net.Conn {
			return &fullKernel{conn, &room, new(atomic.Int64)}
		}}
	})
	c := connectWithFiles(t, path)
	for range 20 {
		_, failure := c.call("open_apart")
		wantFailure(t, failure, status.ResourceExhausted, status.OutcomeExecutedResultLost)
	}
	room.Store(true)
	c.begin("open_apart", 0)
	if frame := c.next(); frame.Type != wire.Reply || frame.Descriptors != 1 {
		t.Errorf("%v with %d files", frame.Type, frame.Descriptors)
	}
}

// TestRepliesWithFilesThatHaveNoRoom: a call whose reply is dropped for want of room is in
// flight no more when its caller is told.
func TestRepliesWithFilesThatHaveNoRoom(t *testing.T) {
	const room = 1 << 20
	s := fileServer(t, server.WithOutputBytes(1<<30, room), server.WithFrameBytesMax(room/2), server.WithCallsInFlight(10, 1), server.WithWriteTimeout(200*time.Millisecond))
	data := make([]byte, 2*room)
	register(t, s, "open_large", func() (*os.File, []byte, error) {
		file, err := os.Open(os.DevNull)
		return file, data, err
	}, server.MaxConcurrency(10))
	register(t, s, "open_small", func() (*os.File, error) { return os.Open(os.DevNull) }, server.MaxConcurrency(10))
	c := connectWithFiles(t, start(t, s))
	for range 3 {
		_, failure := c.call("open_large")
		wantFailure(t, failure, status.ResourceExhausted, status.OutcomeExecutedResultLost)
	}
	c.begin("open_small", 0)
	if frame := c.next(); frame.Type != wire.Reply || frame.Descriptors != 1 {
		t.Errorf("%v with %d files", frame.Type, frame.Descriptors)
	}
}
