package client_test

import (
	"context"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/spin"
	"github.com/nearcall/nearcall/status"
)

// A memoryPeer is the server's end of a connection with shared memory.
type memoryPeer struct {
	*peerConn
	regions *sharedmemory.Regions
	end     *sharedmemory.End
	record  []byte
	parser  wire.Parser
}

const memoryFeatures = wire.FeatureSharedClock | wire.FeatureSharedMemory

var geometry = sharedmemory.Geometry{Slots: 32, Marks: 512, ArenaBytes: 64 << 10}

// memoryCallers returns a client and the peer's end of its connection, which has
// been given memory and sleeps.
func memoryCallers(t *testing.T, options ...client.Option) (*peer, *client.Client, *memoryPeer) {
	t.Helper()
	p := newPeer(t)
	p.welcome.Accepted = memoryFeatures
	c := p.client(options...)
	first := begin(context.Background(), c, "echo", nil)
	conn := p.serve()
	conn.parser.Features = memoryFeatures
	request := conn.expect(wire.Request)
	m := conn.giveMemory()
	conn.reply(request, nil)
	expectReply(t, wait(t, first), "")
	if c.Transport() != "shared memory" {
		t.Fatalf("the transport is %q", c.Transport())
	}
	return p, c, m
}

func (c *peerConn) giveMemory() *memoryPeer {
	c.t.Helper()
	regions, callerFile, serverFile, err := sharedmemory.Create(geometry)
	must(c.t, err)
	c.t.Cleanup(func() { regions.Close() })
	c.sendMemory(callerFile, serverFile)
	callerFile.Close()
	serverFile.Close()
	return &memoryPeer{peerConn: c, regions: regions, end: regions.ServerEnd(), record: make([]byte, 128<<10),
		parser: wire.Parser{From: wire.CallerSide, FrameBytesMax: wire.FrameBytesMax, Features: wire.FeatureSharedClock}}
}

func memoryFrame() []byte {
	offer := geometry.Offer(20)
	frame := wire.Frame{Header: wire.Header{Type: wire.Memory, Descriptors: wire.MemoryDescriptors}, Payload: offer.Append(nil)}
	return frame.Append(nil)
}

func (c *peerConn) sendMemory(files ...*os.File) {
	c.t.Helper()
	var descriptors []int
	for _, file := range files {
		descriptors = append(descriptors, int(file.Fd()))
	}
	_, _, err := c.WriteMsgUnix(memoryFrame(), syscall.UnixRights(descriptors...), nil)
	must(c.t, err)
}

// take waits for a frame in the ring.
func (m *memoryPeer) take() wire.Frame {
	m.t.Helper()
	var frame wire.Frame
	eventually(m.t, m.end.Ready, func() string { return "nothing comes by the ring" })
	record, err := m.end.Take(m.record, wire.FrameBytesMax, nil)
	must(m.t, err)
	_, err = m.parser.Next(record, &frame)
	must(m.t, err)
	frame.Payload = append([]byte(nil), frame.Payload...)
	return frame
}

// put sends a frame by the ring, whether the caller sleeps or not.
func (m *memoryPeer) put(frame wire.Frame) {
	m.t.Helper()
	frame.ExtensionBytes, frame.Length = uint32(len(frame.Extensions)), uint32(len(frame.Extensions)+len(frame.Payload))
	eventually(m.t, func() bool { return m.end.Put(&frame.Header, frame.Extensions, frame.Payload) },
		func() string { return "there is no room in the ring" })
	if m.end.MustWake() {
		m.send(wire.Frame{Header: wire.Header{Type: wire.Wake}})
	}
}

func TestRequestsGoWhereTheServerLooks(t *testing.T) {
	_, c, m := memoryCallers(t)
	for range 50 {
		done := begin(context.Background(), c, "echo", []byte("asleep"))
		m.reply(m.expect(wire.Request), []byte("by the socket"))
		expectReply(t, wait(t, done), "by the socket")
		m.end.Awake()
		done = begin(context.Background(), c, "echo", []byte("awake"))
		m.put(replyTo(m.take(), []byte("by the ring")))
		expectReply(t, wait(t, done), "by the ring")
		// Too large for the ring, and the reply as well.
		done = begin(context.Background(), c, "echo", make([]byte, 100<<10))
		m.reply(m.expect(wire.Request), make([]byte, 200<<10))
		if got := wait(t, done); got.err != nil || len(got.reply) != 200<<10 {
			t.Fatalf("%d bytes came back, %v", len(got.reply), got.err)
		}
		if !m.end.FallAsleep() {
			t.Fatal("a frame is left in the ring")
		}
	}
}

// TestWhoWillSleepSaysSoBeforeSending: else the server would spin for a caller that is about
// to sleep. It sleeps on from its last call, but where none came for a tick, when the standby is
// awake for a moment.
func TestWhoWillSleepSaysSoBeforeSending(t *testing.T) {
	const rounds = 200
	_, c, m := memoryCallers(t, client.WithSpin(spin.Off))
	m.end.Awake()
	woke := 0
	for range rounds {
		eventually(t, m.end.PeerSleeps, func() string { return "the caller does not sleep between calls" })
		m.end.MustWake() // true once for each sleep
		done := begin(context.Background(), c, "echo", nil)
		request := m.take()
		if !m.end.PeerSleeps() || m.end.MustWake() {
			woke++
		}
		m.reply(request, nil)
		expectReply(t, wait(t, done), "")
	}
	if woke > rounds/10 {
		t.Errorf("the caller woke for %d of %d requests", woke, rounds)
	}
}

// TestWhoSpinsStaysAwakeBetweenCalls: a server that found it asleep there would sleep as well,
// and have to be woken for each call. It sleeps once no call has come for some ticks.
func TestWhoSpinsStaysAwakeBetweenCalls(t *testing.T) {
	const rounds = 200
	_, c, m := memoryCallers(t, client.WithSpin(spin.Dedicated))
	m.end.Awake()
	slept := 0
	for range rounds {
		done := begin(context.Background(), c, "echo", nil)
		m.put(replyTo(m.take(), nil))
		expectReply(t, wait(t, done), "")
		if m.end.PeerSleeps() {
			slept++
		}
	}
	// The standby sleeps before callers that are alone read for themselves, and where none
	// called for a tick because the machine stood still.
	if slept > rounds/4 {
		t.Errorf("the caller slept after %d of %d calls", slept, rounds)
	}
	eventually(t, m.end.PeerSleeps, func() string { return "the caller that has nothing to call does not sleep" })
}

// More requests than slots: the others go by the socket, and so does CANCEL when
// the server sleeps.
func TestRingIsFull(t *testing.T) {
	_, c, m := memoryCallers(t)
	m.end.Awake()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan result)
	for range geometry.Slots + 2 {
		call := begin(ctx, c, "echo", nil)
		go func() { ended <- <-call }()
	}
	var requests []wire.Frame
	for range 2 {
		requests = append(requests, m.expect(wire.Request))
	}
	for range geometry.Slots {
		requests = append(requests, m.take())
	}
	for _, request := range requests[1:] {
		m.put(replyTo(request, nil))
	}
	for range requests[1:] {
		expectReply(t, wait(t, ended), "")
	}
	cancel()
	if frame := m.expect(wire.Cancel); frame.CallID != requests[0].CallID {
		t.Errorf("call %d was cancelled, want %d", frame.CallID, requests[0].CallID)
	}
	expectFailure(t, wait(t, ended).err, status.Cancelled, status.OutcomeUnknown)
}

func TestCancelGoesTheWayOfItsRequest(t *testing.T) {
	_, c, m := memoryCallers(t)
	m.end.Awake()
	untilInGrace(t, status.DeadlineExceeded, func() (time.Duration, result) {
		done := begin(shortContext(t), c, "echo", nil)
		request := m.take()
		if frame := m.take(); frame.Type != wire.Cancel || frame.CallID != request.CallID {
			t.Fatalf("got %v %d, want CANCEL %d", frame.Type, frame.CallID, request.CallID)
		}
		m.put(failureOf(request, &status.Error{Code: status.DeadlineExceeded, Outcome: status.OutcomeNotExecuted}))
		got := wait(t, done)
		return got.took - short, got
	})
	done := begin(shortContext(t), c, "echo", nil)
	request := m.take()
	m.end.FallAsleep()
	if cancel := m.expect(wire.Cancel); cancel.CallID != request.CallID {
		t.Fatalf("call %d is cancelled, want %d", cancel.CallID, request.CallID)
	}
	expectTimeout(t, wait(t, done), status.OutcomeUnknown)
}

// TestAnswersToNobodyAreNotRead: what lies in the payload of an error does not matter once its call was given
// up, whichever way it comes and however large it is.
func TestAnswersToNobodyAreNotRead(t *testing.T) {
	_, c, m := memoryCallers(t)
	m.end.Awake()
	ctx, cancel := context.WithCancel(context.Background())
	done := begin(ctx, c, "echo", nil)
	request := m.take()
	cancel()
	if frame := m.take(); frame.Type != wire.Cancel {
		t.Fatalf("got %v, want CANCEL", frame.Type)
	}
	expectFailure(t, wait(t, done).err, status.Cancelled, status.OutcomeUnknown)
	garbage := func(bytes int) wire.Frame {
		failure := failureOf(request, &status.Error{Code: status.Internal, Outcome: status.OutcomeExecuted})
		failure.Payload = make([]byte, bytes)
		return failure
	}
	for _, bytes := range []int{1, 8 << 10} {
		m.put(garbage(bytes))
		m.send(garbage(bytes << 5))
	}
	done = begin(context.Background(), c, "echo", nil)
	m.put(replyTo(m.take(), []byte("later")))
	expectReply(t, wait(t, done), "later")
}

// stages are what a mark may say, and what follows when the server closes the
// connection, when the deadline passes, and when this side closes.
var stages = []struct {
	stage                   sharedmemory.Stage
	ended, expired, closing status.Outcome
}{
	{sharedmemory.StageNone, status.OutcomeNotExecuted, status.OutcomeUnknown, status.OutcomeUnknown},
	{sharedmemory.StageReceived, status.OutcomeNotExecuted, status.OutcomeUnknown, status.OutcomeUnknown},
	{sharedmemory.StageStarted, status.OutcomeUnknown, status.OutcomeUnknown, status.OutcomeUnknown},
	{sharedmemory.StageFinished, status.OutcomeExecutedResultLost, status.OutcomeExecutedResultLost, status.OutcomeExecutedResultLost},
	{sharedmemory.StageOverwritten, status.OutcomeUnknown, status.OutcomeUnknown, status.OutcomeUnknown},
}

// mark is what a server does until its call is at the stage.
func (m *memoryPeer) mark(id uint64, stage sharedmemory.Stage) {
	switch stage {
	case sharedmemory.StageNone:
	case sharedmemory.StageOverwritten:
		m.end.Marks().Set(id+uint64(geometry.Marks), sharedmemory.StageReceived)
	default:
		m.end.Marks().Set(id, stage)
	}
}

func TestOutcomesByMarks(t *testing.T) {
	for _, row := range stages {
		for way, take := range map[string]func(*memoryPeer) wire.Frame{
			"by the ring":   func(m *memoryPeer) wire.Frame { return m.take() },
			"by the socket": func(m *memoryPeer) wire.Frame { return m.expect(wire.Request) },
		} {
			prepare := func(t *testing.T, ctx context.Context) (*client.Client, *memoryPeer, <-chan result) {
				_, c, m := memoryCallers(t, client.WithAttempts(1))
				if way == "by the ring" {
					m.end.Awake()
				}
				// One that nobody reads for would be made elsewhere.
				begin(ctx, c, "echo", nil)
				m.mark(take(m).CallID, sharedmemory.StageFinished)
				done := begin(ctx, c, "echo", nil)
				m.mark(take(m).CallID, row.stage)
				return c, m, done
			}
			name := way + ", " + []string{"none", "received", "started", "finished", "overwritten"}[row.stage]
			t.Run(name+", the server closes", func(t *testing.T) {
				_, m, done := prepare(t, context.Background())
				m.peerConn.end()
				expectFailure(t, wait(t, done).err, status.Unavailable, row.ended)
			})
			t.Run(name+", the deadline passes", func(t *testing.T) {
				_, _, done := prepare(t, shortContext(t))
				expectTimeout(t, wait(t, done), row.expired)
			})
			t.Run(name+", the client closes", func(t *testing.T) {
				c, _, done := prepare(t, context.Background())
				must(t, c.Close())
				expectFailure(t, wait(t, done).err, status.Cancelled, row.closing)
			})
		}
	}
}

// A mark says nothing of a call that was made before there was memory.
func TestMarksOfEarlierCalls(t *testing.T) {
	p := newPeer(t)
	p.welcome.Accepted = memoryFeatures
	c := p.client(client.WithAttempts(1))
	done := begin(context.Background(), c, "echo", nil)
	conn := p.serve()
	conn.expect(wire.Request)
	conn.giveMemory()
	eventually(t, func() bool { return c.Transport() == "shared memory" }, func() string { return "no memory" })
	conn.end()
	expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeUnknown)
}

// What lies in the ring when the server has gone counts.
func TestRingIsReadToItsEnd(t *testing.T) {
	_, c, m := memoryCallers(t)
	m.end.Awake()
	var calls []<-chan result
	for range 5 {
		calls = append(calls, begin(context.Background(), c, "echo", nil))
	}
	for range calls {
		request := m.take()
		reply := replyTo(request, []byte("last"))
		reply.Length = 4
		m.end.Put(&reply.Header, nil, reply.Payload)
	}
	m.peerConn.end()
	for _, call := range calls {
		expectReply(t, wait(t, call), "last")
	}
}

// Nobody reads when the server goes, and the ring takes the next call: it is
// made elsewhere without that counting as an attempt.
func TestServerGoesWhileIdleWithMemory(t *testing.T) {
	for try := range 20 {
		t.Run(strconv.Itoa(try), func(t *testing.T) {
			p, c, m := memoryCallers(t, client.WithAttempts(1))
			m.end.Awake()
			done := begin(context.Background(), c, "echo", nil)
			m.put(replyTo(m.take(), nil))
			expectReply(t, wait(t, done), "")
			m.peerConn.end()
			done = begin(context.Background(), c, "echo", nil)
			fresh := p.serve()
			fresh.reply(fresh.expect(wire.Request), []byte("fresh"))
			expectReply(t, wait(t, done), "fresh")
		})
	}
}

// Without a call the standby reads again after a while, both ways.
func TestIdleMemoryIsRead(t *testing.T) {
	_, c, m := memoryCallers(t)
	m.end.Awake()
	for range 2 {
		done := begin(context.Background(), c, "echo", nil)
		m.put(replyTo(m.take(), nil))
		expectReply(t, wait(t, done), "")
		m.put(wire.Frame{Header: wire.Header{Type: wire.Ping}, Payload: []byte("there?")})
		if pong := m.expect(wire.Pong); string(pong.Payload) != "there?" {
			t.Fatalf("got %q", pong.Payload)
		}
	}
	m.put(wire.Frame{Header: wire.Header{Type: wire.Drain, CallID: 1 << 20}})
	if n, err := m.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Fatalf("got %d bytes and %v, want the end", n, err)
	}
}

// memoryMisuse is what a server must not do; it costs the connection.
var memoryMisuse = map[string]func(*memoryPeer, wire.Frame){
	"a second MEMORY": func(m *memoryPeer, _ wire.Frame) { m.giveMemory() },
	"MEMORY by the ring": func(m *memoryPeer, _ wire.Frame) {
		offer := geometry.Offer(20)
		m.put(wire.Frame{Header: wire.Header{Type: wire.Memory, Descriptors: wire.MemoryDescriptors}, Payload: offer.Append(nil)})
	},
	"WAKE by the ring": func(m *memoryPeer, _ wire.Frame) { m.put(wire.Frame{Header: wire.Header{Type: wire.Wake}}) },
	"a reply to a call that was never made": func(m *memoryPeer, request wire.Frame) {
		request.CallID += 1000
		m.put(replyTo(request, nil))
	},
	"descriptors with a reply": func(m *memoryPeer, request wire.Frame) {
		frame := replyTo(request, nil)
		_, _, err := m.WriteMsgUnix(frame.Append(nil), syscall.UnixRights(0), nil)
		must(m.t, err)
	},
}

func TestMemoryMisuse(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	for name, misuse := range memoryMisuse {
		t.Run(name, func(t *testing.T) {
			_, c, m := memoryCallers(t, client.WithAttempts(1))
			m.end.Awake()
			done := begin(context.Background(), c, "echo", nil)
			misuse(m, m.take())
			expectFailure(t, wait(t, done).err, status.Internal, status.OutcomeUnknown)
		})
	}
}

// Descriptors that come with anything but MEMORY end the connection, also while
// MEMORY is awaited.
func TestDescriptorsWithoutMemory(t *testing.T) {
	for name, n := range map[string]int{"one": 1, "two": 2, "three": 3} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			p.welcome.Accepted = memoryFeatures
			before := openDescriptors(t)
			done := begin(context.Background(), p.client(client.WithAttempts(1)), "echo", nil)
			conn := p.serve()
			frame := replyTo(conn.expect(wire.Request), nil)
			frame.CallID++
			_, _, err := conn.WriteMsgUnix(frame.Append(nil)[:20], syscall.UnixRights(make([]int, n)...), nil)
			must(t, err)
			expectFailure(t, wait(t, done).err, status.Internal, status.OutcomeUnknown)
			must(t, conn.Close())
			eventually(t, func() bool { return openDescriptors(t) <= before }, func() string { return "descriptors are left open" })
		})
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

// badMemory are MEMORYs that cannot be used: the connection goes on without.
var badMemory = map[string]func(*peerConn, *os.File, *os.File){
	"no descriptors":      func(c *peerConn, _, _ *os.File) { c.write(memoryFrame()) },
	"one descriptor":      func(c *peerConn, caller, _ *os.File) { c.sendMemory(caller) },
	"three descriptors":   func(c *peerConn, caller, server *os.File) { c.sendMemory(caller, server, server) },
	"the wrong way round": func(c *peerConn, caller, server *os.File) { c.sendMemory(server, caller) },
	"no seals": func(c *peerConn, caller, _ *os.File) {
		plain, err := os.CreateTemp("", "nc")
		must(c.t, err)
		defer os.Remove(plain.Name())
		defer plain.Close()
		status, err := caller.Stat()
		must(c.t, err)
		must(c.t, plain.Truncate(status.Size()))
		c.sendMemory(caller, plain)
	},
	"in two parts": func(c *peerConn, caller, server *os.File) {
		rights := syscall.UnixRights(int(server.Fd()))
		_, _, err := c.WriteMsgUnix(memoryFrame()[:7], rights, nil)
		must(c.t, err)
		time.Sleep(time.Millisecond)
		c.write(memoryFrame()[7:])
	},
}

func TestMemoryThatCannotBeUsed(t *testing.T) {
	for name, give := range badMemory {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			p.welcome.Accepted = memoryFeatures
			var log logLines
			before := openDescriptors(t)
			c := p.client(client.WithLogger(log.logger()))
			done := begin(context.Background(), c, "echo", nil)
			conn := p.serve()
			regions, callerFile, serverFile, err := sharedmemory.Create(geometry)
			must(t, err)
			defer regions.Close()
			request := conn.expect(wire.Request)
			give(conn, callerFile, serverFile)
			callerFile.Close()
			serverFile.Close()
			conn.reply(request, nil)
			expectReply(t, wait(t, done), "")
			if c.Transport() != "unix socket" || log.count("no shared memory") != 1 {
				t.Errorf("the transport is %q, the log %s", c.Transport(), log.String())
			}
			callAlone(t, c, conn)
			must(t, c.Close())
			must(t, conn.Close())
			eventually(t, func() bool { return openDescriptors(t) <= before }, func() string { return "descriptors are left open" })
		})
	}
}
