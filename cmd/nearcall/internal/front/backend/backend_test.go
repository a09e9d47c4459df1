package backend_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/backend"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
	"github.com/nearcall/nearcall/handoff"
)

const patience = 20 * time.Second

// A fixture is a set of backends and where its processes listen.
type fixture struct {
	t         *testing.T
	directory string
	set       *backend.Set

	mutex   sync.Mutex
	log     bytes.Buffer
	refused []string
}

func newFixture(t *testing.T) *fixture {
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	f := &fixture{t: t, directory: directory}
	f.set = backend.NewSet(backend.Options{
		Timeouts: backend.Timeouts{Health: 50 * time.Millisecond, HandBack: time.Minute}, Log: slog.New(slog.NewTextHandler(f, nil)),
		TakeBack: func(c *handoff.Conn, _ *backend.Socket) { c.Close() },
		Refused: func(_, _, reason string) {
			f.mutex.Lock()
			defer f.mutex.Unlock()
			f.refused = append(f.refused, reason)
		},
	})
	t.Cleanup(func() {
		f.set.Close()
		os.RemoveAll(directory)
	})
	return f
}

// Write is that of the log.
func (f *fixture) Write(text []byte) (int, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.log.Write(text)
}

func (f *fixture) said(text string) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return strings.Count(f.log.String(), text)
}

func (f *fixture) address(name string) string { return "unix:" + filepath.Join(f.directory, name) }

func (f *fixture) listen(name string, options ...handoff.Option) *handoff.Listener {
	f.t.Helper()
	l, err := handoff.Listen(f.address(name), options...)
	must(f.t, err)
	f.t.Cleanup(func() { l.Close() })
	return l
}

// backend makes the backend of some sockets, and waits until that many are up.
func (f *fixture) backend(up int, wait time.Duration, names ...string) *backend.Backend {
	f.t.Helper()
	c := config.Backend{Name: "b", Wait: wait}
	for _, name := range names {
		c.Sockets = append(c.Sockets, f.address(name))
	}
	return f.apply(up, c)
}

func (f *fixture) apply(up int, c config.Backend) *backend.Backend {
	f.t.Helper()
	backends, retire := f.set.Apply([]config.Backend{c})
	retire()
	b := backends["b"]
	await(f.t, "the sockets are up", func() bool {
		found := 0
		for _, state := range f.set.States() {
			if state.Up {
				found++
			}
		}
		return found == up
	})
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// pair is a connection and what its client has of it.
func pair(t *testing.T) (given, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	must(t, err)
	given, err = l.Accept()
	must(t, err)
	t.Cleanup(func() { client.Close(); given.Close() })
	return given, client
}

// send gives a connection in the background.
func send(t *testing.T, b *backend.Backend) <-chan error {
	t.Helper()
	given, _ := pair(t)
	result := make(chan error, 1)
	go func() {
		_, err := b.Send(context.Background(), given, handoff.Meta{Name: "route"})
		result <- err
	}()
	return result
}

func acceptAll(l *handoff.Listener) <-chan *handoff.Conn {
	accepted := make(chan *handoff.Conn, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c.(*handoff.Conn)
		}
	}()
	return accepted
}

func TestTheOneWithLeastToDo(t *testing.T) {
	f := newFixture(t)
	idle, busy := f.listen("idle"), f.listen("busy")
	b := f.backend(2, time.Minute, "idle", "busy")
	accepted := acceptAll(idle)
	const count = 20
	var results []<-chan error
	for range count {
		results = append(results, send(t, b))
		// In turn, so that each sees what became of the one before: here, for who takes a
		// connection knows it first.
		await(t, "it is taken, or is the one that waits", func() bool { return len(results)-answered(results) <= 1 && f.pending() <= 1 })
	}
	if waiting := count - answered(results); waiting > 1 {
		t.Errorf("%d connections wait for a process that accepts nothing", waiting)
	}
	must(t, busy.Close())
	for _, result := range results {
		must(t, <-result)
	}
	await(t, "each was accepted", func() bool { return len(accepted) == count })
}

func answered(results []<-chan error) int {
	count := 0
	for _, result := range results {
		count += len(result)
	}
	return count
}

// pending is what all processes were offered and have not answered.
func (f *fixture) pending() int {
	count := 0
	for _, state := range f.set.States() {
		count += state.Pending
	}
	return count
}

// What nobody takes is the caller's, and as it was.
func TestNobody(t *testing.T) {
	f := newFixture(t)
	b := f.backend(0, 0, "nobody")
	given, client := pair(t)
	_, err := b.Send(context.Background(), given, handoff.Meta{})
	if !errors.Is(err, backend.ErrNobody) || !strings.Contains(err.Error(), "nobody listens on") {
		t.Fatalf("got %v", err)
	}
	_, err = io.WriteString(given, "here")
	must(t, err)
	text := make([]byte, len("here"))
	if _, err := io.ReadFull(client, text); err != nil || string(text) != "here" {
		t.Errorf("the client read %q, %v", text, err)
	}
}

// Who waits for nobody still lets a process that is there take its time.
func TestNoWaitForWhoIsThere(t *testing.T) {
	f := newFixture(t)
	l := f.listen("busy")
	b := f.backend(1, 0, "busy")
	result := send(t, b)
	await(t, "it is offered", func() bool { return f.set.States()[0].Pending == 1 })
	time.Sleep(50 * time.Millisecond) // The time that it takes is the point.
	acceptAll(l)
	must(t, <-result)
}

func TestOneThatComesInTime(t *testing.T) {
	f := newFixture(t)
	b := f.backend(0, time.Minute, "late")
	result := send(t, b)
	accepted := acceptAll(f.listen("late"))
	must(t, <-result)
	if c := <-accepted; c.Meta().Name != "route" {
		t.Errorf("the connection came as %q", c.Meta().Name)
	}
}

// A process that drains gives back what it did not take, and another gets it. What it
// had not even read by then was refused by the end of its channel, in some of the tries.
func TestDrainingProcess(t *testing.T) {
	const tries = 50
	for range tries {
		switch reason := refusedByDraining(t); reason {
		case "draining":
			return
		case "ended":
		default:
			t.Fatalf("it was refused as %q", reason)
		}
	}
	t.Errorf("in %d tries none was refused as draining", tries)
}

// refusedByDraining offers a connection to a process that then drains, sees that another
// gets it, and returns why the first did not.
func refusedByDraining(t *testing.T) string {
	f := newFixture(t)
	old := f.listen("one")
	b := f.backend(1, time.Minute, "one")
	result := send(t, b)
	await(t, "it is offered", func() bool { return f.set.States()[0].Pending == 1 })
	must(t, old.Shutdown(t.Context()))
	accepted := acceptAll(f.listen("one"))
	must(t, <-result)
	<-accepted
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.refused) == 0 {
		return ""
	}
	return f.refused[0]
}

// A configuration that keeps a socket keeps its channel; one that does not leaves
// what is on its way.
func TestApply(t *testing.T) {
	f := newFixture(t)
	one, two := f.listen("one"), f.listen("two")
	b := f.backend(1, time.Minute, "one")
	f.backend(2, time.Minute, "one", "two")
	if count := f.said("takes connections"); count != 2 {
		t.Errorf("%d channels were opened, want one for each socket", count)
	}
	result := send(t, b)
	await(t, "it is offered", func() bool { return f.set.States()[0].Pending == 1 })
	b = f.backend(1, time.Minute, "two")
	acceptAll(one)
	must(t, <-result)
	acceptAll(two)
	must(t, <-send(t, b))
}
