// Package nearcalltest serves functions within a test, to real clients. Client returns one
// in Go, and Serve returns the address for a program in any language:
//
//	c := nearcalltest.Client(t, functions.Register)
//	sum, err := client.Call[int64](ctx, c, "add", 3, 4)
//
// A test that needs no server uses a Fake, or the Fake that `nearcall gen go` writes beside
// the client for the functions of a server.
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

// Serve serves the functions that register registers until the test ends, and returns the
// address for clients: a Unix socket in a folder of its own. Warnings of the server go to the
// log of the test, unless an option sets another logger. Serve may be called by any number
// of tests at the same time. It fails the test if the server cannot be made, if register
// fails, or if functions are still running when the drain timeout has ended.
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

// Client serves functions as Serve does, and returns a client of the server, which is closed
// when the test ends. The options are those of the client.
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
