package gateway

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A peer that is away costs a line of the log a minute, however often the engine tries to reach it.
func TestRepeatedFailuresOfTheEngine(t *testing.T) {
	var text bytes.Buffer
	l := &engineLog{log: slog.New(slog.NewTextHandler(&text, nil)), lately: map[string]*repeated{}}
	now := time.Now()
	for attempt := range 200 {
		l.failed(fmt.Sprintf("Error trying to connect to route (attempt %d): dial tcp 10.0.0.2:6222: connect: connection refused", attempt), now)
		l.failed(fmt.Sprintf("10.0.0.3:%d - rid:%d - TLS route handshake error: remote error: tls: bad certificate", 40000+attempt, attempt), now)
	}
	if lines := strings.Count(text.String(), "\n"); lines != 2 {
		t.Errorf("%d lines:\n%s", lines, text.String())
	}
	if got := l.troubleNow(now); !strings.Contains(got, "bad certificate") {
		t.Errorf("the last trouble is %q", got)
	}
	now = now.Add(repeatedPause)
	l.failed("Error trying to connect to route (attempt 200): dial tcp 10.0.0.2:6222: connect: connection refused", now)
	if !strings.Contains(text.String(), "repeated=199") {
		t.Errorf("a minute later:\n%s", text.String())
	}
	if got := l.troubleNow(now.Add(2 * troubleFor)); got != "" {
		t.Errorf("the last trouble is %q long after it", got)
	}
}
