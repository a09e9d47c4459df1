package server_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// leave ends the goroutine that a function runs in, as t.FailNow does.
func leave() { runtime.Goexit() }

// leaveAlone is leave of a goroutine that nobody else may use.
func leaveAlone() {
	runtime.LockOSThread()
	runtime.Goexit()
}

// TestGoexitIsAnsweredAndSurvived: a function that ends its goroutine is one that
// panicked, wherever it runs.
func TestGoexitIsAnsweredAndSurvived(t *testing.T) {
	for name, options := range map[string][]server.FunctionOption{
		"inline":      nil,
		"apart":       {server.MaxConcurrency(1)},
		"run time":    {server.MaxRunTime(testTimeout)},
		"both limits": {server.MaxConcurrency(1), server.MaxRunTime(testTimeout)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			register(t, s, "leave", leave, options...)
			register(t, s, "leave_alone", leaveAlone, options...)
			register(t, s, "one", func() int64 { return 1 })
			c := connect(t, start(t, s))
			for range 20 {
				for _, function := range []string{"leave", "leave_alone"} {
					_, failure := c.call(function)
					wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
					if failure != nil && !strings.Contains(failure.Message, "runtime.Goexit") {
						t.Fatalf("the message does not tell what happened: %s", failure.Message)
					}
				}
				if value, failure := c.call("one"); value != int64(1) {
					t.Fatalf("one = %v, %v", value, failure)
				}
			}
			wantNoCallsInFlight(t, s)
		})
	}
}

// A leavingText ends the goroutine that asks for its text.
type leavingText struct{}

func (leavingText) String() string { leave(); return "" }

// TestPanicWhoseTextEndsTheGoroutine: what a panic says is asked when nothing has been
// answered yet.
func TestPanicWhoseTextEndsTheGoroutine(t *testing.T) {
	for name, options := range map[string][]server.FunctionOption{"inline": nil, "apart": {server.MaxConcurrency(1)}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			register(t, s, "leave", func() { panic(leavingText{}) }, options...)
			c := connect(t, start(t, s))
			for range 3 {
				_, failure := c.call("leave")
				wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
			}
			wantNoCallsInFlight(t, s)
		})
	}
}

// A nestedPanic panics with itself when it is to say what it is.
type nestedPanic struct{}

func (n nestedPanic) Error() string { panic(n) }

// TestPanicWhoseTextPanics: package fmt lets such a panic through, in a goroutine where nobody
// would recover it. The text of a value that contains itself would not end.
func TestPanicWhoseTextPanics(t *testing.T) {
	endless := make([]any, 1)
	endless[0] = endless
	s := newServer(t)
	register(t, s, "panics", func() { panic(nestedPanic{}) })
	register(t, s, "returns", func() error { return nestedPanic{} })
	register(t, s, "raw", func([]byte) []byte { panic(nestedPanic{}) })
	register(t, s, "endless", func() { panic(endless) })
	register(t, s, "one", func() int64 { return 1 })
	c := connect(t, start(t, s))
	for _, name := range []string{"panics", "returns", "endless"} {
		_, failure := c.call(name)
		wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
	}
	_, failure := c.call("raw", []byte{1})
	wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
	if value, failure := c.call("one"); value != int64(1) {
		t.Errorf("one = %v, %v", value, failure)
	}
}

// wantNoCallsInFlight checks that what ended is counted so: a server whose calls
// are all over stops at once.
func wantNoCallsInFlight(t *testing.T, s *server.Server) {
	t.Helper()
	path, stop := serve(t, s, nil)
	c := connect(t, path)
	c.call("leave")
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-time.After(testTimeout / 4):
		t.Error("Serve waits for a function that has ended its goroutine")
	}
}

// TestGoexitAfterTheReadingWasTakenOver: the reader has another goroutine by then.
func TestGoexitAfterTheReadingWasTakenOver(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "leave", func() { g.wait(); runtime.Goexit() })
	register(t, s, "one", func() int64 { return 1 })
	c := connect(t, start(t, s))
	c.begin("leave", 0)
	<-g.started
	if value, failure := c.call("one"); value != int64(1) {
		t.Fatalf("one = %v, %v", value, failure)
	}
	close(g.release)
	_, _, failure := c.result()
	wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
}

// TestGoexitOfACallerThatHasGone: nobody is there to be answered, and what the
// connection holds is given back.
func TestGoexitOfACallerThatHasGone(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "leave", func() { g.wait(); runtime.Goexit() })
	path, stop := serve(t, s, nil)
	c := connect(t, path)
	c.begin("leave", 0)
	<-g.started
	c.conn.Close()
	close(g.release)
	waitFor(t, "the connection to be forgotten", func() bool { return s.Statistics().Connections == 0 })
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestGoexitInAnInterceptor: what the caller is told depends on whether the
// function ran.
func TestGoexitInAnInterceptor(t *testing.T) {
	s := newServer(t, server.WithInterceptor(func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		if call.Function() == "before" {
			runtime.Goexit()
		}
		err := next(ctx)
		if call.Function() == "after" {
			runtime.Goexit()
		}
		return err
	}))
	for _, name := range []string{"before", "after", "one"} {
		register(t, s, name, func() int64 { return 1 })
	}
	c := connect(t, start(t, s))
	_, failure := c.call("before")
	wantFailure(t, failure, status.Internal, status.OutcomeNotExecuted)
	_, failure = c.call("after")
	wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
	if value, failure := c.call("one"); value != int64(1) {
		t.Errorf("one = %v, %v", value, failure)
	}
}

// TestGoexitOfTheSimpleProtocol: its calls run within their deadlines.
func TestGoexitOfTheSimpleProtocol(t *testing.T) {
	s := newServer(t)
	register(t, s, "leave", leave)
	register(t, s, "limited", leave, server.MaxConcurrency(1))
	register(t, s, "one", func() int64 { return 1 })
	c := dial(t, start(t, s))
	for range 3 {
		for _, name := range []string{"leave", "limited"} {
			answer := c.simple(`{"f":"` + name + `","a":[]}`)
			if answer.OK || answer.Failure.Code != status.Internal || answer.Failure.Outcome != "executed" {
				t.Fatalf("%s: %+v", name, answer)
			}
		}
	}
	if answer := c.simple(`{"f":"one","a":[]}`); !answer.OK {
		t.Errorf("one: %+v", answer)
	}
}

// TestGoexitThroughMemory: the call's mark says that it finished.
func TestGoexitThroughMemory(t *testing.T) {
	s := newServer(t)
	register(t, s, "echo", func(b []byte) []byte { return b })
	register(t, s, "leave", func([]byte) []byte { runtime.Goexit(); return nil })
	c := connectWithMemory(t, start(t, s))
	for range 20 {
		frame := c.Request("leave", nil)
		c.put(&frame)
		_, _, failure := c.decode(c.takeFrame())
		wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
		if stage := c.End.Marks().Stage(c.LastID); stage != sharedmemory.StageFinished {
			t.Fatalf("the mark of the call says %v, want finished", stage)
		}
	}
}

// A detailOfOwn does not like to be encoded by the rules of package json.
type detailOfOwn struct {
	A    int `json:"a"`
	does func()
}

func (d detailOfOwn) MarshalJSON() ([]byte, error) { d.does(); return nil, nil }

// TestDetailsOfSimpleErrorsRunNoMethods: they are encoded when the function and its guard are over.
func TestDetailsOfSimpleErrorsRunNoMethods(t *testing.T) {
	s := newServer(t)
	details := []status.Detail{
		{Type: "panics", Value: detailOfOwn{1, func() { panic("in MarshalJSON") }}},
		{Type: "leaves", Value: detailOfOwn{2, leave}},
		{Type: "channel", Value: make(chan int)},
		{Type: "infinite", Value: math.Inf(1)},
		{Type: "plain", Value: []string{"text"}},
	}
	register(t, s, "fail", func() error { return &status.Error{Code: status.NotFound, Message: "none", Details: details} })
	register(t, s, "one", func() int64 { return 1 })
	c := dial(t, start(t, s))
	answer := c.simple(`{"f":"fail"}`)
	if answer.OK || answer.Failure.Code != status.NotFound || len(answer.Failure.Details) != len(details) {
		t.Fatalf("%+v", answer)
	}
	for i, want := range []string{`{"a":1}`, `{"a":2}`, `"this detail cannot be encoded: type chan int`, `"this detail cannot be encoded: `, `["text"]`} {
		if got := string(answer.Failure.Details[i][1]); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", details[i].Type, got, want)
		}
	}
	if answer := c.simple(`{"f":"one"}`); !answer.OK {
		t.Errorf("the connection: %+v", answer)
	}
}

// A leavingKey ends the goroutine that asks for its text.
type leavingKey string

func (leavingKey) String() string { leave(); return "" }

// TestKeysInErrorsAreShownWithoutMethods: what cannot be encoded says so in its place, whatever
// its keys would do.
func TestKeysInErrorsAreShownWithoutMethods(t *testing.T) {
	s := newServer(t)
	register(t, s, "fail", func() error {
		return &status.Error{Code: status.NotFound, Details: []status.Detail{{Type: "map", Value: map[leavingKey]any{"k": make(chan int)}}}}
	})
	register(t, s, "one", func() int64 { return 1 })
	c := connect(t, start(t, s))
	_, failure := c.call("fail")
	wantFailure(t, failure, status.NotFound, status.OutcomeExecuted)
	if failure != nil && (len(failure.Details) != 1 || !strings.Contains(fmt.Sprint(failure.Details[0].Value), `value of key "k"`)) {
		t.Errorf("details %v", failure.Details)
	}
	if value, failure := c.call("one"); value != int64(1) {
		t.Errorf("one = %v, %v", value, failure)
	}
}

// TestGoexitInNextOfAnotherGoroutine: what was counted for arguments is given back, and the
// caller is told what happened, if the interceptor can tell.
func TestGoexitInNextOfAnotherGoroutine(t *testing.T) {
	s := newServer(t, server.WithInterceptor(func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		over := make(chan struct{})
		go func() {
			defer close(over)
			next(ctx)
		}()
		<-over
		return nil
	}))
	register(t, s, "leave", func([]string) { runtime.Goexit() })
	c := connect(t, start(t, s))
	words := make([]string, 100_000)
	for range 5 {
		_, failure := c.call("leave", words)
		wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
		if failure != nil && !strings.Contains(failure.Message, "runtime.Goexit") {
			t.Fatalf("the message does not tell what happened: %s", failure.Message)
		}
	}
	c.conn.Close()
	waitFor(t, "the arguments to be given back", func() bool { return s.Statistics().InputBytes == 0 })
}
