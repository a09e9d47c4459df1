package client_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/status"
)

// buildEventServer builds the testserver with the event loop once; that is a module
// of its own.
var buildEventServer = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(binaries, "eventserver")
	command := exec.Command("go", "build", "-C", "../server/eventloop", "-o", binary, "./eventserver")
	command.Stderr = os.Stderr
	return binary, command.Run()
})

// A generation is a server whose functions are declared as those of one generation;
// the next one takes its place at the same address.
type generations struct {
	t       *testing.T
	binary  string
	address string
	running *exec.Cmd
}

// replace ends the server that runs, and starts another.
func (g *generations) replace(generation int) {
	g.t.Helper()
	g.end()
	command := exec.Command(g.binary, "-address", g.address, "-generation", strconv.Itoa(generation))
	output, err := command.StdoutPipe()
	must(g.t, err)
	must(g.t, command.Start())
	g.running = command
	ready := time.AfterFunc(patience, func() {
		g.t.Logf("%s was not ready within %v", g.binary, patience)
		_ = command.Process.Kill()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	ready.Stop()
	must(g.t, err)
	// For TCP the first one has drawn a port.
	g.address = strings.TrimSpace(strings.TrimPrefix(line, "ready "))
}

func (g *generations) end() {
	if g.running != nil {
		_ = g.running.Process.Kill()
		_ = g.running.Wait()
	}
}

// usesOfGenerations are typed calls of what the first generation serves.
type usesOfGenerations struct {
	sleepFor func(context.Context, time.Duration) (string, error)
	level    func(context.Context) (int64, error)
	tag      func(context.Context, []byte) ([]byte, error)
	lost     func(context.Context) (string, error)
}

func newUses(c *client.Client) *usesOfGenerations {
	return &usesOfGenerations{client.Func1[time.Duration, string](c, "sleep_for"), client.Func0[int64](c, "level"),
		client.Func1[[]byte, []byte](c, "tag"), client.Func0[string](c, "lost")}
}

func (u *usesOfGenerations) expectServed(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := context.Background()
	length, err := u.sleepFor(ctx, 1500*time.Millisecond)
	if must(t, err); length != "1500 ms" {
		t.Errorf("1.5 s arrived as %s", length)
	}
	length, err = client.Call[string](ctx, c, "sleep_for", 1500*time.Millisecond)
	if must(t, err); length != "1500 ms" {
		t.Errorf("1.5 s arrived as %s", length)
	}
	level, err := u.level(ctx)
	if must(t, err); level != 7 {
		t.Errorf("the level is %d", level)
	}
	tag, err := u.tag(ctx, []byte("x"))
	if must(t, err); string(tag) != "bytes x" {
		t.Errorf("the tag is %q", tag)
	}
	_, err = u.lost(ctx)
	must(t, err)
}

// expectRefused: nothing of it runs on a server that means something else.
func (u *usesOfGenerations) expectRefused(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := context.Background()
	_, err := u.sleepFor(ctx, 1500*time.Millisecond)
	expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	_, err = client.Call[string](ctx, c, "sleep_for", 1500*time.Millisecond)
	expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	_, err = u.level(ctx)
	expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	_, err = u.tag(ctx, []byte("x"))
	expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	_, err = u.lost(ctx)
	expectFailure(t, err, status.Unimplemented, status.OutcomeNotExecuted)
	ran, err := client.Call[[]string](ctx, c, "history")
	if must(t, err); len(ran) > 0 {
		t.Errorf("ran all the same: %q", ran)
	}
	length, err := client.Call[string](ctx, c, "sleep_for", 1500)
	if must(t, err); length != "1500 ms" {
		t.Errorf("1500 arrived as %s", length)
	}
}

func TestReplacedServer(t *testing.T) {
	for name, row := range map[string]struct {
		build     func() (string, error)
		network   string
		options   []client.Option
		transport string
	}{
		"socket":        {buildServer, "unix:", []client.Option{client.WithoutSharedMemory()}, "unix socket"},
		"shared memory": {buildServer, "unix:", nil, "shared memory"},
		"TCP":           {buildServer, "tcp:127.0.0.1:0", nil, "tcp"},
		"event loop":    {buildEventServer, "unix:", nil, "shared memory"},
	} {
		t.Run(name, func(t *testing.T) {
			binary, err := row.build()
			must(t, err)
			g := &generations{t: t, binary: binary, address: row.network}
			t.Cleanup(g.end)
			if row.network == "unix:" {
				directory, err := os.MkdirTemp("", "nc")
				must(t, err)
				t.Cleanup(func() { os.RemoveAll(directory) })
				g.address += filepath.Join(directory, "s")
			}
			g.replace(1)
			c := newClient(t, g.address, row.options...)
			uses := newUses(c)
			for range 5 {
				uses.expectServed(t, c)
			}
			if c.Transport() != row.transport {
				t.Fatalf("warm by %s, want %s", c.Transport(), row.transport)
			}
			g.replace(2)
			uses.expectRefused(t, c)
			g.replace(3)
			uses.expectServed(t, c)
			g.replace(1)
			uses.expectServed(t, c)
		})
	}
}

// What an any holds is a number of the unit that the program was written for.
func TestDynamicValuesOnReplacedServer(t *testing.T) {
	binary, err := buildServer()
	must(t, err)
	g := &generations{t: t, binary: binary, address: "unix:" + filepath.Join(t.TempDir(), "s")}
	t.Cleanup(g.end)
	g.replace(2)
	c, ctx := newClient(t, g.address), context.Background()
	sleepFor, nap := client.Func1[any, string](c, "sleep_for"), client.Func1[map[string]any, string](c, "nap")
	age, spans := client.Func0[any](c, "age"), client.Func0[any](c, "spans")
	uses := map[string]func() (any, error){
		"an argument":     func() (any, error) { return sleepFor(ctx, 1500) },
		"a map":           func() (any, error) { return nap(ctx, map[string]any{"Length": 1500}) },
		"a list of maps":  func() (any, error) { return client.Call[string](ctx, c, "naps", []any{map[string]any{"Length": 1500}}) },
		"a struct":        func() (any, error) { return client.Call[string](ctx, c, "nap", struct{ Length any }{1500}) },
		"a result":        func() (any, error) { return age(ctx) },
		"several results": func() (any, error) { return spans(ctx) },
	}
	for round := range 2 {
		for name, use := range uses {
			if got, err := use(); err != nil {
				t.Errorf("round %d, %s: %v, %v", round, name, got, err)
			}
		}
	}
	g.replace(1)
	for name, use := range uses {
		got, err := use()
		if err == nil {
			t.Errorf("%s: ran as %v on a server of other units", name, got)
			continue
		}
		expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	}
	ran, err := client.Call[[]string](ctx, c, "history")
	if must(t, err); len(ran) > 0 {
		t.Errorf("ran all the same: %q", ran)
	}
}
