package gateway

import (
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"
)

const (
	// repeatedPause is how long the log has no second line of a failure that repeats itself. An engine
	// tries to reach each of its peers several times a second, for as long as one is away.
	repeatedPause = time.Minute
	// repeatedMax bounds the failures that are remembered, because everybody who can connect causes some.
	repeatedMax = 64
	// troubleFor is for how long the last failure is shown as what is wrong now. Peers that are away
	// are tried more often.
	troubleFor = 10 * time.Second
)

// changing are the parts of a line that differ each time.
var changing = regexp.MustCompile(`\(attempt \d+\)|:\d+ - [a-z]+:\d+`)

// A repeated is a failure that was logged, and how often it has come since.
type repeated struct {
	said time.Time
	more int
}

// engineLog passes on what the engine logs, and remembers what it has died of. It is safe for several
// goroutines.
type engineLog struct {
	log *slog.Logger

	mu     sync.Mutex
	why    error
	lately map[string]*repeated
	// trouble is the last failure, and troubleAt when it was.
	trouble   string
	troubleAt time.Time
}

func (l *engineLog) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// Noticef implements engine.Logger. Notices are for those who look for something.
func (l *engineLog) Noticef(format string, v ...any) {
	l.log.Debug("engine: " + fmt.Sprintf(format, v...))
}

// Warnf implements engine.Logger.
func (l *engineLog) Warnf(format string, v ...any) { l.failed(fmt.Sprintf(format, v...), time.Now()) }

// Errorf implements engine.Logger. The gateway goes on in any case, so it is a warning.
func (l *engineLog) Errorf(format string, v ...any) { l.failed(fmt.Sprintf(format, v...), time.Now()) }

// Debugf implements engine.Logger.
func (l *engineLog) Debugf(string, ...any) {}

// Tracef implements engine.Logger.
func (l *engineLog) Tracef(string, ...any) {}

// Fatalf implements engine.Logger.
func (l *engineLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = fmt.Errorf(format, v...)
}

// failed logs a failure, unless it was logged just now.
func (l *engineLog) failed(text string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble, l.troubleAt = text, now
	key := changing.ReplaceAllString(text, "")
	known := l.lately[key]
	if known != nil && now.Sub(known.said) < repeatedPause {
		known.more++
		return
	}
	var more []any
	if known != nil && known.more > 0 {
		more = []any{"repeated", known.more}
	}
	if len(l.lately) >= repeatedMax {
		clear(l.lately)
	}
	l.lately[key] = &repeated{said: now}
	l.log.Warn("engine: "+text, more...)
}

// troubleNow returns the last failure if it was not long ago, or "".
func (l *engineLog) troubleNow(now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.troubleAt) > troubleFor {
		return ""
	}
	return l.trouble
}
