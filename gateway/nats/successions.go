package gateway

import (
	"context"
	"log/slog"
)

// successions is a handler for logs of local servers. That one begins and another one stops is of no
// interest, because each follows the one before, and the gateway goes on.
type successions struct{ slog.Handler }

// Handle implements slog.Handler.
func (s successions) Handle(ctx context.Context, record slog.Record) error {
	if record.Level == slog.LevelInfo && (record.Message == "serving" || record.Message == "stopped") {
		record.Level = slog.LevelDebug
		if !s.Enabled(ctx, record.Level) {
			return nil
		}
	}
	return s.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (s successions) WithAttrs(all []slog.Attr) slog.Handler {
	return successions{s.Handler.WithAttrs(all)}
}

// WithGroup implements slog.Handler.
func (s successions) WithGroup(name string) slog.Handler {
	return successions{s.Handler.WithGroup(name)}
}
