package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/server"
)

func TestPlainListeners(t *testing.T) {
	for name, row := range map[string]struct {
		address  string
		options  []server.Option
		warnings int
		refused  bool
	}{
		"this machine":      {"tcp:127.0.0.1:0", []server.Option{server.WithPlainRefused()}, 0, false},
		"every machine":     {"tcp:0.0.0.0:0", nil, 1, false},
		"quiet":             {"tcp:0.0.0.0:0?plain=quiet", nil, 0, false},
		"refused":           {"tcp:0.0.0.0:0", []server.Option{server.WithPlainRefused()}, 0, true},
		"refused by itself": {"tcp:0.0.0.0:0?plain=refuse", nil, 0, true},
	} {
		var log bytes.Buffer
		s, err := server.New(append(row.options, server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...)
		if err != nil {
			t.Fatal(err)
		}
		listener, err := s.Listen(context.Background(), row.address)
		if (err != nil) != row.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			listener.Close()
		}
		if warnings := strings.Count(log.String(), "can be read and changed"); warnings != row.warnings {
			t.Errorf("%s: %d warnings, want %d", name, warnings, row.warnings)
		}
	}
}
