package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// TestSimpleMembersAreNamedExactly: what another server would not understand is not
// understood here, and what can be understood in two ways is refused.
func TestSimpleMembersAreNamedExactly(t *testing.T) {
	s := newServer(t)
	register(t, s, "add", func(a, b int64) int64 { return a + b })
	path := start(t, s)
	for _, request := range []string{
		`{"F":"add","a":[1,2]}`,
		`{"f":"add","a":[1,2],"a":[3,4]}`,
		`{"f":"add","f":"add","a":[1,2]}`,
		`{"f":"add","a":[1,2],"t":1,"t":null}`,
		`{"f":"add","a":[1,2]} {}`,
	} {
		answer := dial(t, path).simple(request)
		if answer.OK || answer.Failure.Code != status.InvalidArgument || answer.Failure.Outcome != "not executed" {
			t.Errorf("%s: %+v", request, answer)
		}
	}
	for _, request := range []string{`{"f":"add","a":[1,2],"A":[3,4],"T":0,"D":"x","t":null}`, ` { "f" : "add" , "a":[1,2], "other": {"f":1} } `} {
		if answer := dial(t, path).simple(request); !answer.OK {
			t.Errorf("%s: %+v", request, answer)
		}
	}
	answer := dial(t, path).simple(`{"f":"add","A":[1,2]}`)
	if answer.OK || !strings.Contains(answer.Failure.Message, "2") {
		t.Errorf("arguments under another name: %+v", answer)
	}
}

// TestSimpleHangUpIsNoticed: behind any number of requests that wait.
func TestSimpleHangUpIsNoticed(t *testing.T) {
	for _, waiting := range []int{0, 1, 2, 3, 20, 100} {
		s, g := newServer(t), newGate()
		ended := make(chan error, 1)
		register(t, s, "wait", func(ctx context.Context) { g.started <- struct{}{}; <-ctx.Done(); ended <- ctx.Err() })
		register(t, s, "one", func() int64 { g.ended.Add(1); return 1 })
		c := dial(t, start(t, s))
		c.send(simpleRequest(`{"f":"wait"}`))
		<-g.started
		for range waiting {
			c.send(simpleRequest(`{"f":"one"}`))
		}
		c.conn.Close()
		waitFor(t, "the running call to be told", func() bool { return len(ended) > 0 })
		waitFor(t, "the connection to be forgotten", func() bool { return s.Statistics().Connections == 0 })
		if ran := g.ended.Load(); ran > 0 {
			t.Errorf("%d of %d requests ran after their caller had hung up", ran, waiting)
		}
	}
}

// TestSimpleRefusalCancelsNothing: requests in front of one that is refused for want of
// room are answered.
func TestSimpleRefusalCancelsNothing(t *testing.T) {
	const room = 1 << 20
	s, g := newServer(t, server.WithInputBytes(1<<30, room)), newGate()
	register(t, s, "wait", g.waitOrEnd)
	register(t, s, "length", func(text string) int { return len(text) })
	c := dial(t, start(t, s))
	c.send(simpleRequest(`{"f":"wait"}`))
	<-g.started
	c.send(simpleRequest(`{"f":"length","a":["abc"]}`))
	// It is refused by its beginning, and the rest is not read.
	c.conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	if _, err := c.conn.Write(simpleRequest(`{"f":"length","a":["` + strings.Repeat("x", 2*room) + `"]}`)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("all of a request was read for which there is no room: %v", err)
	}
	close(g.release)
	for i, want := range []bool{true, true, false} {
		answer := c.simpleAnswer(c.conn)
		if answer.OK != want || !want && (answer.Failure.Code != status.ResourceExhausted || answer.Failure.Outcome != "not executed") {
			t.Errorf("answer %d: %+v", i, answer)
		}
	}
	waitFor(t, "the connection to be closed", func() bool { return s.Statistics().Connections == 0 })
}

// TestSimpleAnswersKeepTheirOrder: whichever goroutine runs a request, those behind it
// wait for it.
func TestSimpleAnswersKeepTheirOrder(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "same", func(n int64) int64 { return n })
	register(t, s, "apart", func(n int64) int64 { return n }, server.Apart())
	register(t, s, "wait", func(n int64) int64 { g.waitOrEnd(context.Background()); return n })
	c := dial(t, start(t, s))
	const rounds = 10
	var all []byte
	count := 0
	for range rounds {
		for _, name := range []string{"same", "apart", "same", "wait", "same", "same"} {
			all = append(all, simpleRequest(fmt.Sprintf(`{"f":%q,"a":[%d]}`, name, count))...)
			count++
		}
	}
	c.send(all)
	<-g.started
	close(g.release)
	for i := range count {
		if answer := c.simpleAnswer(c.conn); !answer.OK || string(answer.Result) != strconv.Itoa(i) {
			t.Fatalf("answer %d is %+v", i, answer)
		}
	}
}

// TestSimpleCallsEndWithTheirServer: also one that the reader runs itself, of which the
// observer is told once.
func TestSimpleCallsEndWithTheirServer(t *testing.T) {
	ended := make(chan error, 8)
	observer := &observe.Observer{CallEnded: func(_ context.Context, call *observe.Call) { ended <- call.Err }}
	s, g := newServer(t, server.WithObserver(observer)), newGate()
	register(t, s, "wait", g.waitOrEnd)
	path, served := serveCounted(t, s, new(atomic.Int64))
	c := dial(t, path)
	c.send(simpleRequest(`{"f":"wait"}`))
	<-g.started
	go s.Close()
	if n, err := c.conn.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("a server that is closed answers: %d bytes, %v", n, err)
	}
	close(g.release)
	if err := <-served; !errors.Is(err, server.ErrServerClosed) {
		t.Errorf("Serve: %v", err)
	}
	waitFor(t, "the observer to be told of the call", func() bool { return len(ended) > 0 })
	waitFor(t, "the connection to be forgotten", func() bool { return s.Statistics().Connections == 0 })
	if len(ended) > 1 {
		t.Errorf("the call has ended %d times", len(ended))
	}
}

// TestSimpleAnswersAreNotHeldBack: many answers of requests that were sent together do
// not have to wait for the last one.
func TestSimpleAnswersAreNotHeldBack(t *testing.T) {
	const room = 8 << 20
	s := newServer(t, server.WithOutputBytes(1<<30, room))
	register(t, s, "fill", func(n int64) string { return strings.Repeat("x", int(n)) })
	c := dial(t, start(t, s))
	const requests = 200
	c.send(bytes.Repeat(simpleRequest(`{"f":"fill","a":[60000]}`), requests))
	for i := range requests {
		if answer := c.simpleAnswer(c.conn); !answer.OK {
			t.Fatalf("answer %d: %+v", i, answer.Failure)
		}
	}
}
