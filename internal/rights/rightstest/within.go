package rightstest

import (
	"testing"
	"time"
)

// Within fails the test unless f returns in that time; what says what f does. A goroutine is
// left behind then, for whatever holds f up cannot be ended.
func Within(t testing.TB, bound time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(bound):
		t.Fatalf("%s has not ended after %v", what, bound)
	}
}
