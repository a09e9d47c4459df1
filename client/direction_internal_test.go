package client

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
)

// TestDirectionAfterNoFunction: a server that passes calls on may lack a function for a while. When it has
// it again, calls go there by its id, so nothing else would bring the direction back.
func TestDirectionAfterNoFunction(t *testing.T) {
	c := newClientOfSilent(t)
	for _, name := range []string{"absent", "silent"} {
		nowNs := c.core.clock.Ns()
		former := &toldPlace{untilNs: nowNs}
		d := &direction{name: name}
		d.latest.Store(former)
		c.core.directions.ask(d, former, nowNs)
		latest := d.latest.Load()
		if latest == nil || latest == former || latest.at != nil {
			t.Fatalf("%s: after the answer %+v is known, want that calls stay for a while", name, latest)
		}
		if wait := time.Duration(latest.untilNs - nowNs); wait < time.Duration(absentNs) || wait > 2*time.Duration(absentNs) {
			t.Errorf("%s: the server is asked again after %v", name, wait)
		}
	}
}

// TestLaterAttemptsFollowNoFormerDirection: a call may wait for longer than a direction is valid.
func TestLaterAttemptsFollowNoFormerDirection(t *testing.T) {
	c := newClientOfSilent(t)
	for count, renews := range map[int]bool{1: false, 2: true} {
		nowNs := c.core.clock.Ns()
		d := &direction{name: "silent"}
		d.latest.Store(&toldPlace{untilNs: nowNs})
		c.core.directions.all.Store(&map[string]*direction{d.name: d})
		r := c.core.take()
		r.frameType, r.name = wire.Request, d.name
		r.startNs, r.deadlineNs = nowNs-1, nowNs+uint64(DefaultTimeout)
		c.core.attempt(context.Background(), r, count)
		if asked := d.askAfterNs.Load() != 0; asked != renews {
			t.Errorf("attempt %d after the direction's time, of a call that began before: the server is asked again: %v", count, asked)
		}
		c.core.give(r)
	}
}

// newClientOfSilent returns a client of a server with one function, silent.
func newClientOfSilent(t *testing.T) *Client {
	t.Helper()
	s, err := server.New(server.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Register("silent", func() {}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	address, served := "unix:"+t.TempDir()+"/s", make(chan error, 1)
	listener, err := s.Listen(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	go func() { served <- s.Serve(ctx, listener) }()
	t.Cleanup(func() { stop(); <-served })
	c, err := New(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
