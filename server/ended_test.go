package server_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/forward"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// connectAsking is connect for a caller that asks.
func connectAsking(t testing.TB, path string) *caller {
	t.Helper()
	c := dial(t, path)
	offer := hello()
	offer.Offered |= wire.FeatureAsks
	c.greet(offer)
	if c.welcome.Accepted&wire.FeatureAsks == 0 || c.welcome.Key == (wire.ConnectionKey{}) {
		t.Fatalf("welcome %+v accepts no asks, or has no key", c.welcome)
	}
	c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling, Features: c.welcome.Accepted}
	return c
}

// ask sends an ASK. Its deadline is as in the header.
func (c *caller) ask(key wire.ConnectionKey, deadline uint32, ids ...uint64) (id uint64) {
	c.t.Helper()
	c.lastID++
	frame := wire.Frame{Header: wire.Header{Type: wire.Ask, CallID: c.lastID, Deadline: deadline}, Payload: wire.AppendAsk(nil, key, ids)}
	c.send(frame.Append(nil))
	return c.lastID
}

// stages waits for the answer to an ASK.
func (c *caller) stages() []wire.Stage {
	c.t.Helper()
	frame := c.next()
	if frame.Type != wire.Reply || frame.CallID != c.lastID || frame.FunctionID != 0 || frame.Codec != wire.CodecRaw {
		c.t.Fatalf("ASK %d was answered by %+v", c.lastID, frame.Header)
	}
	stages := make([]wire.Stage, len(frame.Payload))
	for i, stage := range frame.Payload {
		stages[i] = wire.Stage(stage)
	}
	return stages
}

func (c *caller) wantStages(want ...wire.Stage) {
	c.t.Helper()
	if got := c.stages(); !slices.Equal(got, want) {
		c.t.Errorf("the stages are %v, want %v", got, want)
	}
}

// atOnce is the deadline of an ASK whose answer is not to wait.
const atOnce = 1

func TestAskedConnectionEndsAndItsCallsAreKnown(t *testing.T) {
	s := newServer(t)
	register(t, s, "double", func(n int64) int64 { return 2 * n })
	register(t, s, "panic", func() { panic("asked") })
	register(t, s, "exit", func() { runtime.Goexit() })
	register(t, s, "fail", func() error { return status.Errorf(status.NotFound, "nothing there") }, server.Apart())
	path := start(t, s)
	for name, ended := range map[string]bool{"open": false, "ended": true} {
		t.Run(name, func(t *testing.T) {
			lost, asker := connectAsking(t, path), connectAsking(t, path)
			lost.call("double", 4)
			lost.call("no_such_function")
			lost.call("double", "not a number")
			lost.call("panic")
			lost.call("exit")
			lost.call("fail")
			if ended {
				lost.conn.Close()
				awaitConnections(t, s, 1)
			}
			asker.ask(lost.welcome.Key, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1<<62)
			asker.wantStages(wire.StageFinished, wire.StageReceived, wire.StageReceived, wire.StageFinished, wire.StageFinished, wire.StageFinished,
				wire.StageNever, wire.StageNever, wire.StageNever)
			if !ended {
				lost.wantEnd()
			}
			asker.ask(lost.welcome.Key, 0, 1)
			asker.wantStages(wire.StageFinished)
			asker.conn.Close()
			awaitConnections(t, s, 0)
		})
	}
	if all := s.Statistics(); all.AsksTotal != 4 || all.EndedKept != 4 {
		t.Errorf("%d asks and %d ended connections are counted, want 4 and 4", all.AsksTotal, all.EndedKept)
	}
}

// awaitConnections waits until so many connections are open, and no other is still ending.
func awaitConnections(t testing.TB, s *server.Server, count int) {
	t.Helper()
	for end := time.Now().Add(testTimeout); s.Statistics().Connections != count; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d connections are open, want %d", s.Statistics().Connections, count)
		}
	}
}

func TestUnknownKeyAndOwnKey(t *testing.T) {
	s := newServer(t)
	register(t, s, "one", func() int64 { return 1 })
	c := connectAsking(t, start(t, s))
	c.ask(wire.ConnectionKey{1}, 0, 1, 2)
	c.wantStages(wire.StageNotKept, wire.StageNotKept)
	c.ask(c.welcome.Key, 0, 1)
	_, _, failure := c.result()
	wantFailure(t, failure, status.InvalidArgument, status.OutcomeNotExecuted)
	if value, failure := c.call("one"); value != int64(1) {
		t.Errorf("one = %v, %v", value, failure)
	}
}

// A function that ignores the end of its context is waited for, which holds up nobody.
func TestAnswerWaitsForTheFunction(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.wait)
	path := start(t, s)
	lost, asker := connectAsking(t, path), connectAsking(t, path)
	id := lost.begin("wait", 0)
	<-g.started
	asker.ask(lost.welcome.Key, atOnce, id)
	asker.wantStages(wire.StageStarted)
	asker.ask(lost.welcome.Key, 0, id)
	ping := wire.Frame{Header: wire.Header{Type: wire.Ping}, Payload: []byte("meanwhile")}
	asker.send(ping.Append(nil))
	if frame := asker.next(); frame.Type != wire.Pong {
		t.Fatalf("%v came before the PONG, while the function runs", frame.Type)
	}
	close(g.release)
	asker.wantStages(wire.StageFinished)
	lost.wantEnd()
}

func TestAnswerWaitsForAskWaitAtMost(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.wait)
	path := start(t, s)
	lost, asker := connectAsking(t, path), connectAsking(t, path)
	id := lost.begin("wait", 0)
	<-g.started
	began := time.Now()
	asker.ask(lost.welcome.Key, 0, id)
	asker.wantStages(wire.StageStarted)
	if took := time.Since(began); took < wire.AskWaitMs*time.Millisecond {
		t.Errorf("the answer waited for %v, want %d ms", took, wire.AskWaitMs)
	}
	close(g.release)
}

func TestAskingEndsTheContexts(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.waitOrEnd)
	path := start(t, s)
	lost, asker := connectAsking(t, path), connectAsking(t, path)
	id := lost.begin("wait", 0)
	<-g.started
	asker.ask(lost.welcome.Key, 0, id)
	asker.wantStages(wire.StageFinished)
}

// What waits for its turn when the connection is asked about never runs.
func TestQueuedCallIsNotStarted(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.wait, server.MaxConcurrency(1))
	path := start(t, s)
	lost, asker := connectAsking(t, path), connectAsking(t, path)
	lost.begin("wait", 0)
	<-g.started
	lost.begin("wait", 0)
	ping := wire.Frame{Header: wire.Header{Type: wire.Ping}}
	lost.send(ping.Append(nil))
	lost.next()
	asker.ask(lost.welcome.Key, atOnce, 1, 2)
	asker.wantStages(wire.StageStarted, wire.StageReceived)
	close(g.release)
	asker.ask(lost.welcome.Key, 0, 1, 2)
	asker.wantStages(wire.StageFinished, wire.StageReceived)
	awaitConnections(t, s, 1)
	if ran := g.ended.Load(); ran != 1 {
		t.Errorf("%d calls ran, want 1", ran)
	}
}

// A call that runs is known, however many calls have come after it and taken its mark.
func TestCallThatRunsOutlivesItsMark(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.wait, server.Apart())
	register(t, s, "one", func() int64 { return 1 })
	path := start(t, s)
	lost, asker := connectAsking(t, path), connectAsking(t, path)
	slow := lost.begin("wait", 0)
	<-g.started
	for range wire.KeptMarks {
		lost.call("one")
	}
	asker.ask(lost.welcome.Key, atOnce, slow, 2, lost.lastID)
	asker.wantStages(wire.StageStarted, wire.StageFinished, wire.StageFinished)
	close(g.release)
	asker.ask(lost.welcome.Key, 0, slow)
	asker.wantStages(wire.StageFinished)
	awaitConnections(t, s, 1)
	asker.ask(lost.welcome.Key, 0, slow)
	asker.wantStages(wire.StageFinished)
}

func TestAnswerWhoseMarkWasTakenIsNotKept(t *testing.T) {
	s := newServer(t)
	register(t, s, "one", func() int64 { return 1 })
	path := start(t, s)
	lost, asker := connectAsking(t, path), connectAsking(t, path)
	for range wire.KeptMarks + 1 {
		lost.call("one")
	}
	asker.ask(lost.welcome.Key, 0, 1, 2)
	asker.wantStages(wire.StageNotKept, wire.StageFinished)
}

func TestFullServerAnswers(t *testing.T) {
	s, g := newServer(t, server.WithCallsInFlight(1, 2)), newGate()
	register(t, s, "wait", g.wait, server.Apart())
	path := start(t, s)
	lost, asker := connectAsking(t, path), connectAsking(t, path)
	id := lost.begin("wait", 0)
	<-g.started
	first := asker.ask(lost.welcome.Key, 0, id)
	// The first question waits, so that there is no room for another one that does.
	asker.ask(lost.welcome.Key, 0, id)
	asker.wantStages(wire.StageStarted)
	asker.begin("wait", 0)
	_, _, failure := asker.result()
	wantFailure(t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
	close(g.release)
	asker.lastID = first
	asker.wantStages(wire.StageFinished)
}

// A call that was passed on and is over has an outcome that is unknown, and nothing to wait for.
func TestForwardedCallThatIsOverIsNotWaitedFor(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.wait, server.Apart())
	registerForwarded(t, s, "pass", func(context.Context, *forward.Request, []byte) (forward.Reply, error) {
		return forward.Reply{}, status.Errorf(status.Unavailable, "it was lost").With(status.OutcomeUnknown)
	})
	path := start(t, s)
	lost, asker := connectAsking(t, path), connectAsking(t, path)
	// It keeps the connection from ending.
	lost.begin("wait", 0)
	<-g.started
	_, failure := lost.call("pass")
	wantFailure(t, failure, status.Unavailable, status.OutcomeUnknown)
	asker.ask(lost.welcome.Key, 0, lost.lastID)
	ping := wire.Frame{Header: wire.Header{Type: wire.Ping}}
	asker.send(ping.Append(nil))
	asker.wantStages(wire.StageStarted)
	if frame := asker.next(); frame.Type != wire.Pong {
		t.Errorf("%v came, want the PONG", frame.Type)
	}
	close(g.release)
}

// However many connections ask, the questions of one user that wait are bounded, and each gives
// back what it has counted.
func TestUserThatIsFullIsAnsweredAtOnce(t *testing.T) {
	s := newServer(t, server.WithCallsInFlight(8, 2))
	gates := map[string]*gate{"first": newGate(), "second": newGate()}
	for name, g := range gates {
		register(t, s, name, g.wait, server.Apart())
	}
	path := start(t, s)
	waits, other := connectAsking(t, path), connectAsking(t, path)
	for name, g := range gates {
		lost := connectAsking(t, path)
		id := lost.begin(name, 0)
		<-g.started
		asked := waits.ask(lost.welcome.Key, 0, id)
		ping := wire.Frame{Header: wire.Header{Type: wire.Ping}}
		waits.send(ping.Append(nil))
		if frame := waits.next(); frame.Type != wire.Pong {
			t.Fatalf("%v came before the PONG, while the function runs", frame.Type)
		}
		other.ask(lost.welcome.Key, 0, id)
		other.wantStages(wire.StageStarted)
		close(g.release)
		waits.lastID = asked
		waits.wantStages(wire.StageFinished)
		awaitConnections(t, s, 2)
	}
}

func TestEndedConnectionsAreForgotten(t *testing.T) {
	t.Run("by number", func(t *testing.T) {
		// A quarter of them is this user's.
		s := newServer(t, server.WithEndedConnections(8, time.Hour))
		path := start(t, s)
		asker := connectAsking(t, path)
		var keys []wire.ConnectionKey
		for range 3 {
			lost := connectAsking(t, path)
			keys = append(keys, lost.welcome.Key)
			lost.conn.Close()
			awaitConnections(t, s, 1)
		}
		for i, want := range []wire.Stage{wire.StageNotKept, wire.StageNever, wire.StageNever} {
			asker.ask(keys[i], 0, 1)
			asker.wantStages(want)
		}
	})
	t.Run("by time", func(t *testing.T) {
		s := newServer(t, server.WithEndedConnections(8, time.Millisecond))
		path := start(t, s)
		lost := connectAsking(t, path)
		lost.conn.Close()
		awaitConnections(t, s, 0)
		for end := time.Now().Add(testTimeout); s.Statistics().EndedKept > 0; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatal("an ended connection is remembered for longer than a millisecond")
			}
		}
	})
	t.Run("at once", func(t *testing.T) {
		s := newServer(t, server.WithEndedConnections(0, time.Hour))
		c := dial(t, start(t, s))
		offer := hello()
		offer.Offered |= wire.FeatureAsks
		c.greet(offer)
		if c.welcome.Accepted&wire.FeatureAsks != 0 || c.welcome.Key != (wire.ConnectionKey{}) {
			t.Errorf("a server that remembers nothing accepts asks: %+v", c.welcome)
		}
	})
}

// What an answer says stays true, however the question and the calls meet.
func TestAnswersStayTrue(t *testing.T) {
	const (
		rounds = 300
		calls  = 40
	)
	var ran [calls + 1]atomic.Int32
	s := newServer(t)
	note := func(ctx context.Context, n int64) { ran[n].Add(1) }
	register(t, s, "inline", note)
	register(t, s, "apart", note, server.Apart())
	path := start(t, s)
	asker := connectAsking(t, path)
	var met [5]int
	for range rounds {
		lost := connectAsking(t, path)
		for i := range ran {
			ran[i].Store(0)
		}
		ids := make([]uint64, calls)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for i := range ids {
				// The connection may end meanwhile.
				if _, err := lost.conn.Write(noteRequest([]string{"inline", "apart"}[i%2], uint64(i+1))); err != nil {
					return
				}
			}
		}()
		for i := range ids {
			ids[i] = uint64(i + 1)
		}
		for range rand.N(400) {
			runtime.Gosched()
		}
		asker.ask(lost.welcome.Key, 0, ids...)
		stages := asker.stages()
		<-sent
		lost.conn.Close()
		awaitConnections(t, s, 1)
		for i, stage := range stages {
			met[stage]++
			times := ran[i+1].Load()
			if stage <= wire.StageReceived && times != 0 || stage == wire.StageFinished && times != 1 || stage == wire.StageStarted || times > 1 {
				t.Fatalf("call %d was said to be at stage %d, and ran %d times", i+1, stage, times)
			}
		}
	}
	t.Logf("stages that were met: %v", met)
	if met[wire.StageNever]+met[wire.StageReceived] == 0 || met[wire.StageFinished] == 0 {
		t.Errorf("nothing was tested: %v", met)
	}
}

// noteRequest is a request whose one argument is its own id.
func noteRequest(name string, id uint64) []byte {
	frame := wire.Frame{
		Header:     wire.Header{Type: wire.Request, Codec: wire.CodecMessagePack, CallID: id},
		Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, name),
		Payload:    []byte{0x91, byte(id)},
	}
	return frame.Append(nil)
}
