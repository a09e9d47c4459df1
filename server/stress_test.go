package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

const (
	stressTime    = 5 * time.Second
	stressCallers = 8
	stressRound   = 400 * time.Millisecond
)

// TestStress mixes what callers and functions may do, well-behaved or not, with
// drains at any moment. Every call that should be answered is, once and with
// its own result, and at the end of each round nothing is left behind.
func TestStress(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("NEARCALL_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d (NEARCALL_SEED repeats it)", seed)
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)
	answered := new(atomic.Int64)
	for started := time.Now(); time.Since(started) < stressTime && !t.Failed(); seed++ {
		stressOneServer(t, seed, answered)
		waitFor(t, "goroutines and descriptors to be given back", func() bool {
			return runtime.NumGoroutine() <= goroutines && openDescriptors(t) <= descriptors
		})
	}
	t.Logf("%d calls answered", answered.Load())
	if answered.Load() < 50 {
		t.Error("hardly anything was tested")
	}
}

func openDescriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// stressOneServer stops the server in the middle of half of the rounds. In the
// others the callers leave first, and all quotas must be free again.
func stressOneServer(t *testing.T, seed uint64, answered *atomic.Int64) {
	const callsInFlightPerUserMax = 3000
	s := newServer(t, server.WithCallsInFlight(callsInFlightPerUserMax, callsInFlightPerUserMax), server.WithPendingOutputBytesMax(100_000))
	release := make(chan struct{})
	registerStress(t, s)
	register(t, s, "gate", func() { <-release }, server.MaxConcurrency(callsInFlightPerUserMax))
	path, stop := serve(t, s, nil)
	// While it is there the server keeps the user's account.
	witness := connect(t, path)
	var stopping atomic.Bool
	var callers sync.WaitGroup
	end := time.Now().Add(stressRound)
	for i := range stressCallers {
		callers.Add(1)
		go func() {
			defer callers.Done()
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for time.Now().Before(end) && !stopping.Load() {
				stressSession(t, random, path, &stopping, answered)
			}
		}()
	}
	if seed%2 == 0 {
		time.Sleep(time.Duration(seed/2%uint64(stressRound.Milliseconds())) * time.Millisecond)
		stopping.Store(true)
		if err := stop(); err != nil {
			t.Error(err)
		}
		callers.Wait()
		witness.conn.Close()
		return
	}
	callers.Wait()
	waitFor(t, "the connections to end", func() bool { return s.Statistics().Connections == 1 })
	checkQuota(t, witness, release, callsInFlightPerUserMax)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// checkQuota checks that the limit is reached after exactly that many calls.
func checkQuota(t *testing.T, c *caller, release chan struct{}, callsInFlightPerUserMax int) {
	t.Helper()
	c.beginMany(callsInFlightPerUserMax+1, "gate")
	id, _, failure := c.result()
	if id != uint64(callsInFlightPerUserMax+1) {
		t.Errorf("call %d was refused, want %d: %v", id, callsInFlightPerUserMax+1, failure)
	}
	wantFailure(t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
	close(release)
	for range callsInFlightPerUserMax {
		if _, _, failure := c.result(); failure != nil {
			t.Fatal(failure)
		}
	}
	c.conn.Close()
}

// registerStress registers functions of bytes that return what they are given,
// in as many ways as the server has to run them.
func registerStress(t *testing.T, s *server.Server) {
	t.Helper()
	after := func(most int) func(data []byte) []byte {
		return func(data []byte) []byte {
			if len(data) > 0 {
				time.Sleep(time.Duration(int(data[0])*most/256) * time.Microsecond)
			}
			return data
		}
	}
	register(t, s, "quick", func(data []byte) []byte { return data })
	register(t, s, "mixed", func(data []byte) []byte {
		if len(data) > 0 && data[0] < 5 {
			return after(300_000)(data)
		}
		return data
	})
	register(t, s, "apart", after(2000), server.MaxConcurrency(4))
	register(t, s, "limited", after(60_000), server.MaxRunTime(5*time.Millisecond))
	register(t, s, "panic", func(data []byte) []byte { panic("stress") })
	register(t, s, "wait", func(ctx context.Context, data []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
}

// stressNames are the functions, and whether a call may fail.
var stressNames = []struct {
	name    string
	mayFail bool
}{{"quick", false}, {"quick", false}, {"mixed", false}, {"apart", true}, {"limited", true}, {"panic", true}, {"wait", true}}

type stressCall struct {
	payload []byte
	mayFail bool
}

// A stressPlan is what one connection sends, and what it expects.
type stressPlan struct {
	calls   map[uint64]stressCall
	lastID  uint64
	message []byte
}

func (p *stressPlan) add(random *rand.Rand) {
	kind := stressNames[random.IntN(len(stressNames))]
	size := random.IntN(100)
	if random.IntN(20) == 0 {
		size = random.IntN(300_000)
	}
	call := stressCall{payload: make([]byte, size), mayFail: kind.mayFail}
	for i := range call.payload {
		call.payload[i] = byte(random.Uint32())
	}
	p.lastID += 1 + random.Uint64N(3)
	p.calls[p.lastID] = call
	header := wire.Header{Type: wire.Request, Codec: wire.CodecRaw, CallID: p.lastID}
	if kind.name == "wait" {
		header.Deadline = deadlineIn(time.Duration(random.IntN(30)) * time.Millisecond)
	}
	frame := wire.Frame{Header: header, Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, kind.name), Payload: call.payload}
	p.message = frame.Append(p.message)
	switch random.IntN(8) {
	case 0:
		p.message = append(p.message, ping("x")...)
	case 1:
		call.mayFail = true
		p.calls[p.lastID] = call
		cancel := wire.Frame{Header: wire.Header{Type: wire.Cancel, CallID: p.lastID}}
		p.message = cancel.Append(p.message)
	}
}

// stressSession is one connection, of which some break the rules.
func stressSession(t *testing.T, random *rand.Rand, path string, stopping *atomic.Bool, answered *atomic.Int64) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		if !stopping.Load() {
			t.Error(err)
		}
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testTimeout))
	switch random.IntN(10) {
	case 0:
		conn.Write([]byte("\x89 garbage"))
		return
	case 1:
		stressSimple(t, random, conn, stopping, answered)
		return
	}
	greeting := hello()
	if _, err = conn.Write(greeting.Append(nil)); err == nil {
		var welcome wire.Welcome
		buffer := make([]byte, wire.HelloBytesMax)
		n, _ := conn.Read(buffer)
		used, _ := wire.ParseWelcome(buffer[:n], &welcome)
		switch {
		case used == 0:
			err = errors.New("no welcome")
		case welcome.Accepted&wire.FeatureSharedClock == 0:
			err = errors.New("the clock is one, and was not accepted as shared")
		default:
			err = stressFrames(random, conn, buffer[used:n], answered)
		}
	}
	if err != nil && !stopping.Load() {
		t.Error(err)
	}
}

// stressFrames sends a plan and checks every answer.
func stressFrames(random *rand.Rand, conn net.Conn, pending []byte, answered *atomic.Int64) error {
	plan := &stressPlan{calls: make(map[uint64]stressCall)}
	for range 1 + random.IntN(60) {
		plan.add(random)
	}
	leaveAfter := -1
	switch random.IntN(4) {
	case 0: // leaves at any moment
		leaveAfter = random.IntN(len(plan.calls))
	case 1: // leaves within a frame
		plan.message = append(plan.message, ping("half")[:20]...)
		leaveAfter = len(plan.calls)
	}
	// Reading must not wait for writing.
	go conn.Write(plan.message)
	if random.IntN(10) == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	parser := wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling}
	buffer := make([]byte, 64<<10)
	last := ^uint64(0)
	for len(plan.calls) > 0 && leaveAfter != 0 {
		var frame wire.Frame
		n, err := parser.Next(pending, &frame)
		if err != nil {
			return err
		}
		if n == 0 {
			n, err := conn.Read(buffer)
			if err != nil {
				return plan.unanswered(last, err)
			}
			pending = append(pending, buffer[:n]...)
			continue
		}
		pending = pending[n:]
		if frame.Type == wire.Drain {
			last = frame.CallID
		} else if frame.Type != wire.Pong {
			if err := plan.check(&frame); err != nil {
				panic(err)
			}
			answered.Add(1)
			leaveAfter--
		}
	}
	return nil
}

// check takes a terminal frame.
func (p *stressPlan) check(frame *wire.Frame) error {
	call, known := p.calls[frame.CallID]
	switch {
	case !known:
		return fmt.Errorf("%v for call %d, which was answered or never sent", frame.Type, frame.CallID)
	case frame.Type == wire.Error && !call.mayFail:
		return fmt.Errorf("call %d: status %#x: %q", frame.CallID, frame.Status, frame.Payload)
	case frame.Type == wire.Reply && !bytes.Equal(frame.Payload, call.payload):
		return fmt.Errorf("call %d: %d bytes came back of %d", frame.CallID, len(frame.Payload), len(call.payload))
	}
	delete(p.calls, frame.CallID)
	return nil
}

// unanswered judges the end of a connection: calls that DRAIN covered must have
// been answered by then.
func (p *stressPlan) unanswered(last uint64, reason error) error {
	if last == ^uint64(0) {
		return reason
	}
	for id := range p.calls {
		if id <= last {
			panic(fmt.Sprintf("call %d is unanswered though DRAIN covered up to %d: %v", id, last, reason))
		}
	}
	return nil
}

// stressSimple speaks the simple protocol, several requests at once.
func stressSimple(t *testing.T, random *rand.Rand, conn net.Conn, stopping *atomic.Bool, answered *atomic.Int64) {
	requests := []string{`{"f":"quick","a":["eA=="]}`, `{"f":"wait","a":[""],"t":5}`, `{"f":"panic","a":[""]}`, `{"f":"nothing"}`, `{"f":"limited","a":["/w=="]}`}
	count := 1 + random.IntN(10)
	var message []byte
	for range count {
		message = append(message, simpleRequest(requests[random.IntN(len(requests))])...)
	}
	conn.Write(message)
	if random.IntN(2) == 0 {
		count = random.IntN(count + 1) // leaves early
	}
	var header [4]byte
	for range count {
		_, err := io.ReadFull(conn, header[:])
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, binary.BigEndian.Uint32(header[:])))
		}
		if err != nil {
			if !stopping.Load() {
				t.Error(err)
			}
			return
		}
		answered.Add(1)
	}
}
