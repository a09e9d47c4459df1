package server_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

const (
	storeBytes = 8 << 20
	storeHead  = 4096
	// More than the budgets of these tests have room for twice.
	storeBudget = 12 << 20
)

// A storeCaller speaks of stores as no client library would.
type storeCaller struct {
	*caller
	files []*os.File
}

func connectWithStores(t testing.TB, path string, features ...wire.Feature) *storeCaller {
	t.Helper()
	c := dial(t, path)
	offer := hello()
	offer.Offered |= wire.FeatureStores
	for _, feature := range features {
		offer.Offered |= feature
	}
	offer.ValueBytesMax = wire.ValueBytesMaxCeiling
	offer.FrameBytesMax = wire.FrameBytesFloor
	c.greet(offer)
	if c.welcome.Accepted&wire.FeatureStores == 0 {
		t.Fatal("the server does not accept stores")
	}
	c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling, Features: c.welcome.Accepted}
	made := &storeCaller{caller: c}
	t.Cleanup(func() {
		for _, file := range made.files {
			file.Close()
		}
	})
	return made
}

// next returns the next frame, and keeps the file that comes with it.
func (c *storeCaller) next() (frame wire.Frame, file *os.File) {
	c.t.Helper()
	for {
		n, err := c.parser.Next(c.pending, &frame)
		if err != nil {
			c.t.Fatal(err)
		}
		if n > 0 {
			c.pending = c.pending[n:]
			return frame, file
		}
		buffer, control := make([]byte, 64<<10), make([]byte, 1024)
		n, controlBytes, _, _, err := c.conn.ReadMsgUnix(buffer, control)
		if err != nil {
			c.t.Fatalf("read: %v", err)
		}
		for _, number := range rights.Numbers(control[:controlBytes]) {
			file = os.NewFile(uintptr(number), "store")
			c.files = append(c.files, file)
		}
		c.pending = append(c.pending, buffer[:n]...)
	}
}

func (c *storeCaller) sendAsk(bytes uint64) {
	c.t.Helper()
	c.lastID++
	frame := wire.Frame{Header: wire.Header{Type: wire.Store, CallID: c.lastID}, Payload: wire.AppendStoreAsk(nil, bytes)}
	c.send(frame.Append(nil))
}

// ask asks for a store and waits for it.
func (c *storeCaller) ask(bytes uint64) (wire.Stored, *os.File) {
	c.t.Helper()
	c.sendAsk(bytes)
	return c.stored()
}

// stored waits for a reply that names a store.
func (c *storeCaller) stored() (wire.Stored, *os.File) {
	c.t.Helper()
	frame, file := c.next()
	said, found, valid := wire.FindStored(&frame)
	if frame.Type != wire.Reply || !found || !valid {
		_, _, failure := c.decode(frame)
		c.t.Fatalf("%s without a store: %v", frame.Type, failure)
	}
	return said, file
}

func (c *storeCaller) failure() *status.Error {
	c.t.Helper()
	frame, _ := c.next()
	_, _, failure := c.decode(frame)
	return failure
}

func (c *storeCaller) request(name string, said wire.Stored, payload ...byte) {
	c.t.Helper()
	c.lastID++
	frame := wire.Frame{Header: wire.Header{Type: wire.Request, CallID: c.lastID},
		Extensions: wire.AppendStored(wire.AppendExtension(nil, wire.ExtensionFunctionName, name), said), Payload: payload}
	c.send(frame.Append(nil))
}

func (c *storeCaller) release(said wire.Stored) {
	c.t.Helper()
	frame := wire.Frame{Header: wire.Header{Type: wire.Release}, Payload: wire.StoreRelease{Place: said.Place, Serial: said.Serial}.Append(nil)}
	c.send(frame.Append(nil))
}

// storeServer serves functions of bytes, with budgets for one store at a time.
func storeServer(t testing.TB, options ...server.Option) (*server.Server, string) {
	t.Helper()
	options = append([]server.Option{server.WithValueBytesMax(storeBytes), server.WithFrameBytesMax(wire.FrameBytesFloor),
		server.WithInputBytes(storeBudget, storeBudget), server.WithOutputBytes(storeBudget, storeBudget)}, options...)
	s := newServer(t, options...)
	register(t, s, "echo", func(data []byte) []byte { return data })
	register(t, s, "length", func(data []byte) []byte { return []byte{byte(len(data) >> 20)} })
	return s, start(t, s)
}

func wantNothingStored(t testing.TB, s *server.Server) {
	t.Helper()
	waitFor(t, "nothing is counted", func() bool { return s.Statistics().InputBytes == 0 && s.Statistics().OutputBytes == 0 })
}

// One request by hand, which has its answer in a store, as the specification says it.
func TestStoresByHand(t *testing.T) {
	s, path := storeServer(t, server.WithInputBytes(64<<20, 64<<20), server.WithOutputBytes(64<<20, 64<<20))
	c := connectWithStores(t, path)
	var request, answer *os.File
	for round := range 3 {
		said, file := c.ask(storeBytes)
		if file != nil {
			request = file
		}
		data := bytes.Repeat([]byte{byte(round + 1)}, storeBytes)
		if _, err := request.WriteAt(data, storeHead); err != nil {
			t.Fatal(err)
		}
		c.request("echo", said)
		reply, file := c.stored()
		if file != nil {
			answer = file
		}
		got, serial := make([]byte, storeBytes), make([]byte, 8)
		if _, err := answer.ReadAt(got, storeHead); err != nil || reply.Bytes != storeBytes {
			t.Fatalf("%d bytes, %v", reply.Bytes, err)
		}
		if _, err := answer.ReadAt(serial, 0); err != nil || !bytes.Equal(got, data) || serial[0] != byte(reply.Serial) {
			t.Fatalf("round %d: serial %d of %d, %v", round, serial[0], reply.Serial, err)
		}
		c.release(reply)
	}
	wantNothingStored(t, s) // after a second
	// The reply is gone, although the caller still has the file.
	var status unix.Stat_t
	waitFor(t, "the memory is given back", func() bool { return unix.Fstat(int(answer.Fd()), &status) == nil && status.Blocks*512 <= storeHead })
	serial := make([]byte, 8)
	if _, err := answer.ReadAt(serial, 0); err != nil || serial[0] != 0 {
		t.Errorf("serial %d, %v", serial[0], err)
	}
	// Nobody but the server writes there, so that nobody else can hold the lock that this needs.
	if _, err := answer.WriteAt(serial, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("writing to a reply: %v", err)
	}
}

// A caller cannot change the size of a store, nor what it may do to it.
func TestStoresKeepTheirSize(t *testing.T) {
	_, path := storeServer(t)
	c := connectWithStores(t, path)
	said, file := c.ask(storeBytes)
	for _, size := range []int64{0, storeHead, storeBytes, 2 * storeBytes} {
		if err := unix.Ftruncate(int(file.Fd()), size); !errors.Is(err, unix.EPERM) {
			t.Errorf("truncating to %d: %v", size, err)
		}
	}
	for _, seal := range []int{unix.F_SEAL_WRITE, unix.F_SEAL_FUTURE_WRITE} {
		if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seal); !errors.Is(err, unix.EPERM) {
			t.Errorf("seal %d: %v", seal, err)
		}
	}
	// A store without pages holds zeros.
	if err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, storeHead+storeBytes); err != nil {
		t.Fatal(err)
	}
	c.request("length", said)
	if frame, _ := c.next(); frame.Type != wire.Reply || frame.Payload[0] != storeBytes>>20 {
		t.Errorf("%s %v", frame.Type, frame.Payload)
	}
}

// Requests that name a store which they do not have are refused, and none of them runs.
func TestRequestsWithWrongStores(t *testing.T) {
	var ran atomic.Int64
	s := newServer(t, server.WithValueBytesMax(storeBytes), server.WithFrameBytesMax(wire.FrameBytesFloor))
	register(t, s, "count", func(data []byte) []byte { ran.Add(1); return nil })
	path := start(t, s)
	c := connectWithStores(t, path)
	given, _ := c.ask(1 << 20)
	wrong := map[string]func() (said wire.Stored, payload []byte){
		"another serial":  func() (wire.Stored, []byte) { return wire.Stored{Serial: given.Serial + 1, Bytes: 1}, nil },
		"no serial":       func() (wire.Stored, []byte) { return wire.Stored{Bytes: 1}, nil },
		"another place":   func() (wire.Stored, []byte) { return wire.Stored{Place: 1, Serial: given.Serial + 1, Bytes: 1}, nil },
		"a reply's place": func() (wire.Stored, []byte) { return wire.Stored{Place: 2, Serial: given.Serial, Bytes: 1}, nil },
		"no place":        func() (wire.Stored, []byte) { return wire.Stored{Place: 99, Serial: given.Serial, Bytes: 1}, nil },
		"and a payload":   func() (wire.Stored, []byte) { return given, []byte("x") },
		"huge": func() (wire.Stored, []byte) {
			return wire.Stored{Place: given.Place, Serial: given.Serial, Bytes: 1 << 62}, nil
		},
	}
	for name, make := range wrong {
		said, payload := make()
		c.request("count", said, payload...)
		failure := c.failure()
		if failure == nil || failure.Code != status.InvalidArgument || failure.Outcome != status.OutcomeNotExecuted {
			t.Errorf("%s: %v", name, failure)
		}
	}
	// One more byte than the store has: it was this request's, and is not given back twice.
	said := given
	said.Bytes = 2 << 20
	c.request("count", said)
	wantFailure(t, c.failure(), status.InvalidArgument, status.OutcomeNotExecuted)
	c.request("count", given)
	wantFailure(t, c.failure(), status.Unavailable, status.OutcomeNotExecuted)
	c.release(given)
	c.request("none", mustAsk(c))
	wantFailure(t, c.failure(), status.Unimplemented, status.OutcomeNotExecuted)
	c.request("count", mustAsk(c))
	if frame, _ := c.next(); frame.Type != wire.Reply || ran.Load() != 1 {
		t.Errorf("%s, and %d calls ran", frame.Type, ran.Load())
	}
	wantNothingStored(t, s)
}

func mustAsk(c *storeCaller) wire.Stored {
	c.t.Helper()
	said, _ := c.ask(1 << 20)
	return said
}

// Frames about stores that break the format end the connection.
func TestBrokenFramesOfStores(t *testing.T) {
	s, path := storeServer(t)
	broken := map[string]wire.Frame{
		"a short STORE":        {Header: wire.Header{Type: wire.Store, CallID: 1}, Payload: []byte{1, 2, 3}},
		"a STORE without id":   {Header: wire.Header{Type: wire.Store}, Payload: wire.AppendStoreAsk(nil, 1)},
		"a short RELEASE":      {Header: wire.Header{Type: wire.Release}, Payload: []byte{1}},
		"a RELEASE of place 4": {Header: wire.Header{Type: wire.Release}, Payload: wire.StoreRelease{Place: 4, Serial: 1}.Append(nil)},
	}
	for name, frame := range broken {
		c := connectWithStores(t, path)
		c.send(frame.Append(nil))
		if failure := c.failure(); failure == nil || failure.Code != status.InvalidArgument {
			t.Errorf("%s: %v", name, failure)
		}
		c.wantEnd()
	}
	plain := connect(t, path)
	plain.send((&wire.Frame{Header: wire.Header{Type: wire.Store, CallID: 1}, Payload: wire.AppendStoreAsk(nil, 1)}).Append(nil))
	_, _, failure := plain.result()
	wantFailure(t, failure, status.InvalidArgument, status.OutcomeNotExecuted)
	plain.wantEnd()
	wantNothingStored(t, s)
}

// Whoever asks for more than there is room for is refused, whatever the size, and takes nothing
// from the connections that have less.
func TestStoresAreCounted(t *testing.T) {
	s, path := storeServer(t, server.WithWriteTimeout(100*time.Millisecond))
	c, other := connectWithStores(t, path), connectWithStores(t, path)
	c.sendAsk(storeBytes + 1)
	wantFailure(t, c.failure(), status.ResourceExhausted, status.OutcomeNotExecuted)
	c.sendAsk(0)
	wantFailure(t, c.failure(), status.ResourceExhausted, status.OutcomeNotExecuted)
	first, _ := c.ask(storeBytes)
	if held := s.Statistics().InputBytes; held != storeBytes+storeHead {
		t.Errorf("%d bytes are counted", held)
	}
	for range 20 {
		for _, asking := range []*storeCaller{c, other} {
			asking.sendAsk(storeBytes)
			wantFailure(t, asking.failure(), status.ResourceExhausted, status.OutcomeNotExecuted)
		}
	}
	if held := s.Statistics().InputBytes; held != storeBytes+storeHead {
		t.Errorf("%d bytes are counted", held)
	}
	// There are two places for requests, and no more.
	second, _ := c.ask(1 << 20)
	c.sendAsk(1)
	failure := c.failure()
	wantFailure(t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
	if len(failure.Details) != 1 || failure.Details[0].Value != "stores_per_direction" {
		t.Errorf("details %v", failure.Details)
	}
	c.release(second)
	c.release(first)
	c.release(first)
	if said, _ := other.ask(storeBytes); said.Place != 0 {
		t.Errorf("place %d", said.Place)
	}
	c.conn.Close()
	other.conn.Close()
	wantNothingStored(t, s)
}

// A store for which no request comes is taken back, and a request that comes later is told so.
func TestUnusedStoresAreTakenBack(t *testing.T) {
	s, path := storeServer(t, server.WithFrameTimeout(50*time.Millisecond))
	c := connectWithStores(t, path)
	said, _ := c.ask(storeBytes)
	wantNothingStored(t, s)
	c.request("length", said)
	wantFailure(t, c.failure(), status.Unavailable, status.OutcomeNotExecuted)
	if again, file := c.ask(storeBytes); file == nil || again.Serial == said.Serial {
		t.Errorf("serial %d and then %d, with a store: %v", said.Serial, again.Serial, file != nil)
	}
}

// A caller that keeps the stores of its replies loses its connection, and no other does.
func TestRepliesThatAreNotReleased(t *testing.T) {
	s, path := storeServer(t, server.WithWriteTimeout(300*time.Millisecond))
	c, other := connectWithStores(t, path), connectWithStores(t, path)
	c.request("echo", mustAsk(c))
	reply, file := c.stored()
	c.wantEnd()
	// What it has may still be read for a while, and then is counted no more.
	waitFor(t, "the reply is gone", func() bool {
		serial := make([]byte, 8)
		_, err := file.ReadAt(serial, 0)
		return err == nil && serial[0] == 0
	})
	if reply.Place < wire.StoresPerDirection {
		t.Errorf("a reply at place %d", reply.Place)
	}
	wantNothingStored(t, s)
	other.request("length", mustAsk(other))
	if frame, _ := other.next(); frame.Type != wire.Reply {
		t.Errorf("%s", frame.Type)
	}
}

// A server that stops reads no RELEASE any more. It takes a store back after a while, and goes on
// with its other calls.
func TestRepliesThatAreNotReleasedToAServerThatStops(t *testing.T) {
	t.Run("socket", func(t *testing.T) { keepRepliesOfAServerThatStops(t) })
	// There the server reads on until it has answered everything.
	t.Run("memory", func(t *testing.T) { keepRepliesOfAServerThatStops(t, wire.FeatureSharedMemory) })
}

func keepRepliesOfAServerThatStops(t *testing.T, features ...wire.Feature) {
	s := newServer(t, server.WithSharedMemoryAfter(1), server.WithValueBytesMax(storeBytes), server.WithFrameBytesMax(wire.FrameBytesFloor), server.WithWriteTimeout(300*time.Millisecond))
	g := newGate()
	release := sync.OnceFunc(func() { close(g.release) })
	defer release()
	register(t, s, "wait", g.wait, server.Apart())
	register(t, s, "large", func([]byte) []byte { return make([]byte, 1<<20) })
	path, served := serveCounted(t, s, new(atomic.Int64))
	c := connectWithStores(t, path, features...)
	waiting := c.begin("wait", 0)
	<-g.started
	if len(features) > 0 {
		if frame, _ := c.next(); frame.Type != wire.Memory {
			t.Fatalf("%s", frame.Type)
		}
	}
	c.lastID++
	c.send((&wire.Frame{Header: wire.Header{Type: wire.Request, CallID: c.lastID}, Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, "large")}).Append(nil))
	_, file := c.stored()
	go s.Shutdown(context.Background())
	if frame, _ := c.next(); frame.Type != wire.Drain {
		t.Fatalf("%s", frame.Type)
	}
	waitFor(t, "the reply is gone", func() bool {
		serial := make([]byte, 8)
		_, err := file.ReadAt(serial, 0)
		return err == nil && serial[0] == 0
	})
	release()
	if frame, _ := c.next(); frame.Type != wire.Reply || frame.CallID != waiting {
		t.Errorf("%s of call %d", frame.Type, frame.CallID)
	}
	c.conn.Close()
	<-served
}

// Results that wait for a store hold up no other call, even if their functions are so quick that
// the reader runs them.
func TestResultsThatWaitForStores(t *testing.T) {
	const results = 5
	large := bytes.Repeat([]byte{7}, 1<<20)
	s := newServer(t, server.WithValueBytesMax(storeBytes), server.WithFrameBytesMax(wire.FrameBytesFloor))
	register(t, s, "large", func([]byte) []byte { return large })
	register(t, s, "small", func([]byte) []byte { return []byte("small") })
	path := start(t, s)
	c := connectWithStores(t, path)
	call := func(name string) {
		c.lastID++
		c.send((&wire.Frame{Header: wire.Header{Type: wire.Request, CallID: c.lastID}, Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, name)}).Append(nil))
	}
	for range results {
		call("large")
	}
	replies := []wire.Stored{}
	for range wire.StoresPerDirection {
		reply, _ := c.stored()
		replies = append(replies, reply)
	}
	call("small")
	if frame, _ := c.next(); string(frame.Payload) != "small" {
		t.Fatalf("%s %q", frame.Type, frame.Payload)
	}
	for waiting := results - len(replies); len(replies) > 0; waiting-- {
		c.release(replies[0])
		if replies = replies[1:]; waiting > 0 {
			reply, _ := c.stored()
			replies = append(replies, reply)
		}
	}
	wantNothingStored(t, s)
}

// A caller that asks for large results and gives no store back makes the server hold no more of them
// than of other results that wait.
func TestResultsThatWaitForStoresAreCounted(t *testing.T) {
	const results = 100
	s := newServer(t, server.WithValueBytesMax(storeBytes), server.WithFrameBytesMax(wire.FrameBytesFloor), server.WithOutputBytes(storeBudget, storeBudget))
	register(t, s, "large", func([]byte) []byte { return make([]byte, 1<<20) })
	c := connectWithStores(t, start(t, s))
	for range results {
		c.lastID++
		c.send((&wire.Frame{Header: wire.Header{Type: wire.Request, CallID: c.lastID}, Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, "large")}).Append(nil))
	}
	for stored, refused := 0, 0; stored < wire.StoresPerDirection || refused < results-wire.StoresPerDirection-storeBudget>>20; {
		frame, _ := c.next() // in whatever order their functions return
		if frame.Type == wire.Reply {
			stored++
			continue
		}
		_, _, failure := c.decode(frame)
		wantFailure(t, failure, status.ResourceExhausted, status.OutcomeExecutedResultLost)
		refused++
	}
}

// A store that a call uses is not given back by a RELEASE, nor when the connection ends, but when
// the function has returned.
func TestStoresOfRunningCalls(t *testing.T) {
	started, goOn := make(chan struct{}), make(chan struct{})
	s := newServer(t, server.WithValueBytesMax(storeBytes), server.WithFrameBytesMax(wire.FrameBytesFloor))
	var sum atomic.Int64
	register(t, s, "wait", func(_ context.Context, data []byte) []byte {
		close(started)
		<-goOn
		for _, b := range data {
			sum.Add(int64(b))
		}
		return nil
	}, server.MaxRunTime(time.Millisecond))
	path := start(t, s)
	c := connectWithStores(t, path)
	said, file := c.ask(1 << 20)
	if _, err := file.WriteAt(bytes.Repeat([]byte{1}, 1<<20), storeHead); err != nil {
		t.Fatal(err)
	}
	c.request("wait", said)
	<-started
	wantFailure(t, c.failure(), status.DeadlineExceeded, status.OutcomeUnknown)
	c.release(said)
	c.request("wait", said)
	wantFailure(t, c.failure(), status.Unavailable, status.OutcomeNotExecuted)
	c.conn.Close()
	if held := s.Statistics().InputBytes; held < 1<<20 {
		t.Errorf("%d bytes are counted while the function runs", held)
	}
	close(goOn)
	wantNothingStored(t, s)
	if sum.Load() != 1<<20 {
		t.Errorf("the sum is %d", sum.Load())
	}
}

// Budgets that have no room for the largest value are refused with the option that raises them.
func TestValuesThatFitNoBudget(t *testing.T) {
	if _, err := tryServer(server.WithValueBytesMax(1 << 30)); err == nil {
		t.Error("a store of 1 GiB fits into 256 MiB")
	}
	if _, err := tryServer(server.WithValueBytesMax(1<<30+1), server.WithInputBytes(4<<30, 4<<30), server.WithOutputBytes(4<<30, 4<<30)); err == nil {
		t.Error("a value of more than 1 GiB is allowed")
	}
}

// A result with as many metadata as there may be travels in a store like others.
func TestStoresOfResultsWithMetadata(t *testing.T) {
	s := newServer(t, server.WithValueBytesMax(storeBytes), server.WithFrameBytesMax(wire.FrameBytesFloor))
	register(t, s, "both", func(ctx context.Context, data []byte) []byte {
		call, _ := server.CallFromContext(ctx)
		for call.AddReplyMetadata("key", "some text") == nil {
		}
		for call.AddReplyMetadata("k", "") == nil {
		}
		return make([]byte, 1<<20)
	})
	c := connectWithStores(t, start(t, s))
	c.lastID++
	c.send((&wire.Frame{Header: wire.Header{Type: wire.Request, CallID: c.lastID}, Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, "both")}).Append(nil))
	reply, _ := c.stored()
	c.release(reply)
}

// An observer is told how large a request in a store was, whether it ran or was refused.
func TestObservedRequestsInStores(t *testing.T) {
	n := new(notebook)
	_, path := storeServer(t, server.WithObserver(n.observer()))
	c := connectWithStores(t, path)
	for i, name := range []string{"length", "none"} {
		c.request(name, mustAsk(c))
		c.next()
		waitFor(t, "the call to be observed", func() bool { return n.count() == i+1 })
		if last := n.last(); last.RequestBytes != 1<<20 {
			t.Errorf("%s took %d bytes", name, last.RequestBytes)
		}
	}
}

// Stores that are only kept make room for those that are needed now.
func TestKeptStoresMakeRoom(t *testing.T) {
	const budget = storeBytes + storeHead
	s := newServer(t, server.WithValueBytesMax(storeBytes), server.WithFrameBytesMax(wire.FrameBytesFloor), server.WithWriteTimeout(200*time.Millisecond),
		server.WithInputBytes(budget, budget), server.WithOutputBytes(budget, budget))
	register(t, s, "make", func(data []byte) []byte { return make([]byte, int(data[0])<<20) })
	path := start(t, s)
	for _, what := range []string{"requests", "replies"} {
		c := connectWithStores(t, path)
		for _, size := range []byte{1, storeBytes >> 20, 1, storeBytes >> 20} {
			var said wire.Stored
			if what == "requests" {
				said, _ = c.ask(uint64(size) << 20)
			} else {
				c.lastID++
				c.send((&wire.Frame{Header: wire.Header{Type: wire.Request, CallID: c.lastID},
					Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, "make"), Payload: []byte{size}}).Append(nil))
				said, _ = c.stored()
			}
			c.release(said)
		}
	}
	wantNothingStored(t, s)
}
