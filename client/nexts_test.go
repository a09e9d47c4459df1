package client_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// waiting serves a function that says that it has started, and returns when the test ends.
func waiting(t *testing.T) (address string, started <-chan struct{}) {
	ended, starts := make(chan struct{}), make(chan struct{}, 1)
	address = serve(t, "unix:"+filepath.Join(t.TempDir(), "s"), func(s *server.Server) {
		must(t, s.Register("wait", func() {
			starts <- struct{}{}
			<-ended
		}))
		must(t, s.Register("one", func() int64 { return 1 }))
	})
	t.Cleanup(func() { close(ended) })
	return address, starts
}

// wantFailure checks the code and the outcome of an error.
func wantFailure(t *testing.T, err error, code status.Code, outcome status.Outcome) {
	t.Helper()
	var failure *status.Error
	if !errors.As(err, &failure) || failure.Code != code || failure.Outcome != outcome {
		t.Errorf("%v, want %v, %v", err, code, outcome)
	}
}

// TestNextThatIsLeftBehind: what is told of a call is what became of it, also if an
// interceptor did not wait for that. Afterwards its next is of no use.
func TestNextThatIsLeftBehind(t *testing.T) {
	var kept intercept.Next
	address, started := waiting(t)
	c := newClient(t, address, client.WithInterceptor(func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		kept = next
		if call.Function() == "one" {
			return next(ctx)
		}
		ctx, cancel := context.WithCancel(ctx)
		go next(ctx)
		<-started
		cancel()
		return errors.New("in a hurry")
	}))
	_, err := client.Call[client.None](context.Background(), c, "wait")
	wantFailure(t, err, status.Unknown, status.OutcomeUnknown)
	for range 2 {
		if one, err := client.Call[int64](context.Background(), c, "one"); one != 1 || err != nil {
			t.Errorf("one = %d, %v", one, err)
		}
		if err := kept(context.Background()); err == nil || !strings.Contains(err.Error(), "when its call was over") {
			t.Errorf("next of a call that is over returns %v", err)
		}
	}
}

// TestInterceptorsCannotMoveTheDeadline: not even by a context that has none.
func TestInterceptorsCannotMoveTheDeadline(t *testing.T) {
	address, _ := waiting(t)
	c := newClient(t, address, client.WithInterceptor(func(_ context.Context, _ intercept.Call, next intercept.Next) error {
		return next(context.Background())
	}))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	started := time.Now()
	_, err := client.Call[client.None](ctx, c, "wait")
	if !errors.Is(err, status.DeadlineExceeded) {
		t.Errorf("%v, want %v", err, status.DeadlineExceeded)
	}
	if took := time.Since(started); took > client.DefaultTimeout/2 {
		t.Errorf("the call ended after %v", took)
	}
}
