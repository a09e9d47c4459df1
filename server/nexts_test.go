package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// recovering is an interceptor that is right about everything but its error.
func recovering(ctx context.Context, _ intercept.Call, next intercept.Next) error {
	defer func() { _ = recover() }()
	return next(ctx)
}

// TestRecoveredPanicIsNoSuccess: an interceptor that recovers from a panic and returns no
// error does not make a result of a function that had none.
func TestRecoveredPanicIsNoSuccess(t *testing.T) {
	for name, options := range map[string][]server.FunctionOption{"inline": nil, "apart": {server.Apart()}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, server.WithInterceptor(recovering))
			register(t, s, "text", func(text string) string {
				if text == "panic" {
					panic("as asked for")
				}
				return text
			}, options...)
			c := connect(t, start(t, s))
			for range 3 {
				if value, failure := c.call("text", "a"); value != "a" {
					t.Fatalf("text = %v, %v", value, failure)
				}
				value, failure := c.call("text", "panic")
				if failure == nil {
					t.Fatalf("a function that panicked has the result %v", value)
				}
				wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
			}
		})
	}
}

// TestNextThatIsLeftBehind: a call is over when its function has returned, also if an
// interceptor does not wait for that.
func TestNextThatIsLeftBehind(t *testing.T) {
	for name, options := range map[string][]server.FunctionOption{"inline": nil, "apart": {server.Apart()}} {
		t.Run(name, func(t *testing.T) {
			entered, released, nexts := make(chan struct{}), make(chan struct{}), make(chan intercept.Next, 1)
			s := newServer(t, server.WithInterceptor(func(ctx context.Context, _ intercept.Call, next intercept.Next) error {
				go next(ctx)
				<-entered
				nexts <- next
				close(released)
				return errors.New("in a hurry")
			}))
			texts := make(chan string, 2)
			register(t, s, "text", func(text string) string {
				close(entered)
				<-released
				texts <- text
				return text
			}, options...)
			c := connect(t, start(t, s))
			_, failure := c.call("text", "a")
			wantFailure(t, failure, status.Unknown, status.OutcomeExecuted)
			if got := len(texts); got != 1 {
				t.Errorf("the call is answered when its function has returned %d times", got)
			}
			if err := (<-nexts)(context.Background()); err == nil || !strings.Contains(err.Error(), "when its call was over") {
				t.Errorf("next of a call that is over returns %v", err)
			}
		})
	}
}

// TestPanicInAnInterceptorsGoroutine: a function that panics where an interceptor has called it,
// as those do that leave at a timeout, ends its call and not the server.
func TestPanicInAnInterceptorsGoroutine(t *testing.T) {
	for name, options := range map[string][]server.FunctionOption{"inline": nil, "apart": {server.Apart()}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, server.WithInterceptor(func(ctx context.Context, _ intercept.Call, next intercept.Next) error {
				ended := make(chan error, 1)
				go func() { ended <- next(ctx) }()
				return <-ended
			}))
			register(t, s, "panic", func() { panic("as asked for") }, options...)
			register(t, s, "one", func() int64 { return 1 }, options...)
			c := connect(t, start(t, s))
			_, failure := c.call("panic")
			wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
			if value, failure := c.call("one"); value != int64(1) {
				t.Errorf("one = %v, %v", value, failure)
			}
		})
	}
}
