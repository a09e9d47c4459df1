package server_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/nearcall/nearcall/forward"
)

// Forwarded calls share goroutines, which end when nothing is passed on for a while. A function that
// ends its goroutine takes no call of others along.
func TestForwardedCallsShareGoroutines(t *testing.T) {
	const calls = 200
	var mu sync.Mutex
	passed := 0
	seen := map[string]bool{}
	s := newServer(t)
	registerForwarded(t, s, "pass", func(_ context.Context, _ *forward.Request, dst []byte) (forward.Reply, error) {
		var stack [64]byte
		name, _, _ := strings.Cut(string(stack[:runtime.Stack(stack[:], false)]), " [")
		mu.Lock()
		defer mu.Unlock()
		seen[name] = true
		if passed++; passed%10 == 0 {
			runtime.Goexit()
		}
		return forward.Reply{Payload: append(dst, 0xC0)}, nil
	})
	c := connect(t, start(t, s))
	before := runtime.NumGoroutine()
	ended := 0
	for range calls {
		c.begin("pass", 0)
		if _, _, failure := c.result(); failure != nil {
			ended++
		}
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d calls in %d goroutines, of which %d were ended", calls, len(seen), ended)
	if ended != calls/10 || len(seen) > calls/2 {
		t.Errorf("%d calls in %d goroutines, of which %d were ended", calls, len(seen), ended)
	}
	waitFor(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}
