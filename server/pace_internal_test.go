package server

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
)

// serveStranger serves a function that takes files to this user as if it were another one. The
// user stays as long as the test.
func serveStranger(t *testing.T) (s *Server, stranger *user, address string, stop func() error) {
	t.Helper()
	s, err := New(WithFileDescriptors(nil), WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Register("take", func(files []*os.File) int {
		for _, file := range files {
			file.Close()
		}
		return len(files)
	}); err != nil {
		t.Fatal(err)
	}
	address = "unix:" + filepath.Join(t.TempDir(), "s")
	listener, err := s.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if stranger, err = s.users.join(&Peer{Local: true, UserID: uint32(os.Geteuid())}); err != nil {
		t.Fatal(err)
	}
	stranger.descriptors.exempt = false
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	return s, stranger, address, func() error {
		end()
		return <-served
	}
}

func paceClient(t *testing.T, address string) *client.Client {
	t.Helper()
	c, err := client.New(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestDescriptorsComeAtAPace: what a user sends beyond the limit is read later, whatever it is
// and however fast it could be closed.
func TestDescriptorsComeAtAPace(t *testing.T) {
	const calls = 250
	_, _, address, stop := serveStranger(t)
	defer stop()
	c := paceClient(t, address)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	files := make([]*os.File, wire.FileDescriptorsPerFrameMax)
	for i := range files {
		files[i] = null
	}
	began := time.Now()
	for range calls {
		var taken int
		if err := c.Call(t.Context(), "take", &taken, files); err != nil || taken != len(files) {
			t.Fatalf("%d files were taken: %v", taken, err)
		}
	}
	all, atOnce := calls*len(files)*int(descriptorTime), int(paceBurst)
	// The last call need not wait for what it has brought itself.
	least := time.Duration(all-atOnce) - time.Duration(len(files))*descriptorTime
	if took := time.Since(began); took < least {
		t.Errorf("%d descriptors came in %v, want %v at least", calls*len(files), took, least)
	}
}

// TestPaceIsOfAllConnections: a connection that ended leaves what it brought to the user's next
// ones, and other users notice nothing.
func TestPaceIsOfAllConnections(t *testing.T) {
	var table userTable
	table.init(&config{connectionsMax: 100, connectionsPerUserMax: 100})
	peer, other := &Peer{Local: true, UserID: 12345}, &Peer{Local: true, UserID: 12346}
	first, err := table.join(peer)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	few := wire.FileDescriptorsPerSecond / 32
	if free := first.descriptors.count(few, now); free.After(now) {
		t.Errorf("after %d descriptors the next may come in %v", few, free.Sub(now))
	}
	free := first.descriptors.count(10*wire.FileDescriptorsPerSecond, now)
	if wait := free.Sub(now); wait < 9*time.Second || wait > 10*time.Second {
		t.Errorf("after those of ten seconds the next may come in %v", wait)
	}
	table.leave(first)
	next, err := table.join(peer)
	if err != nil {
		t.Fatal(err)
	}
	if !next.descriptors.freeAt().Equal(free) {
		t.Error("a new connection pays nothing")
	}
	stranger, err := table.join(other)
	if err != nil {
		t.Fatal(err)
	}
	if stranger.descriptors.freeAt().After(now) {
		t.Error("another user pays")
	}
}

// TestUsersArePacedAndForgotten: whose time is over is forgotten, though no connection of theirs
// comes again.
func TestUsersArePacedAndForgotten(t *testing.T) {
	var table userTable
	table.init(&config{connectionsMax: 100, connectionsPerUserMax: 100})
	paced, err := table.join(&Peer{Local: true, UserID: 12345})
	if err != nil {
		t.Fatal(err)
	}
	paced.descriptors.count(wire.FileDescriptorsPerSecond/8, time.Now())
	table.leave(paced)
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		table.mu.Lock()
		left := len(table.users)
		table.mu.Unlock()
		if left == 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d users are left", left)
		}
	}
}

// TestPacedConnectionsEnd: a server that ends does not wait for a connection that must not read
// on for an hour, nor for one that has just come.
func TestPacedConnectionsEnd(t *testing.T) {
	_, stranger, address, stop := serveStranger(t)
	c := paceClient(t, address)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var taken int
	if err := c.Call(t.Context(), "take", &taken, []*os.File{null}); err != nil {
		t.Fatal(err)
	}
	stranger.descriptors.count(3600*wire.FileDescriptorsPerSecond, time.Now())
	if err := c.Call(t.Context(), "take", &taken, []*os.File{null}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := paceClient(t, address).Call(short, "take", &taken, []*os.File{}); err == nil {
		t.Error("a connection was served that has to wait for an hour")
	}
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the server has not ended after five seconds")
	}
}
