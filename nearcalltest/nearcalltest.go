// Package nearcalltest serves functions to real clients within tests: of Go, or of any
// language by the address.
//
//	c := nearcalltest.Client(t, functions.Register)
//	sum, err := client.Call[int64](ctx, c, "add", 3, 4)
//
// For tests that need no server, `nearcall gen go` writes a Fake.
package nearcalltest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/server"
)

// Serve serves what register registers until the test ends, and returns the address for
// clients: a Unix socket in a folder of its own. The server's log is the test's, unless an
// option sets another. It may be called by any number of tests at the same time; it fails
// the test where the server cannot be made, register fails, or functions are still running
// when the drain timeout has ended.
func Serve(t testing.TB, register func(s *server.Server) error, options ...server.Option) (address string) {
	t.Helper()
	s, err := server.New(slices.Concat([]server.Option{server.WithLogger(logger(t))}, options)...)
	if err == nil {
		err = register(s)
	}
	if err != nil {
		t.Fatalf("nearcalltest: %v", err)
	}
	address = "unix:" + filepath.Join(folder(t), "s")
	listener, err := s.Listen(context.Background(), address)
	if err != nil {
		t.Fatalf("nearcalltest: %v", err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), listener) }()
	t.Cleanup(func() {
		err := s.Shutdown(context.Background())
		if ended := <-served; !errors.Is(ended, server.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		if err != nil {
			t.Errorf("nearcalltest: %v", err)
		}
	})
	return address
}

// Client is Serve with a client of the server, which is closed when the test ends.
func Client(t testing.TB, register func(s *server.Server) error, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(Serve(t, register), options...)
	if err != nil {
		t.Fatalf("nearcalltest: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// folder makes a folder for a socket. That of the test may have a name that is too long for
// one.
func folder(t testing.TB) string {
	t.Helper()
	made, err := os.MkdirTemp("", "nearcall")
	if err != nil {
		t.Fatalf("nearcalltest: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(made) })
	return made
}

// logger writes warnings and errors to the test's log.
func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}
