package client_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/status"
)

// Code that was generated for a server which is then replaced by one that has other
// parameters, of the same types.
func TestGeneratedCodeNoticesWhatChanged(t *testing.T) {
	for name, row := range map[string]struct {
		options []client.Option
		refused bool
	}{"socket": {[]client.Option{client.WithoutSharedMemory()}, true}, "shared memory": {nil, true}, "ignored": {[]client.Option{client.WithDrift(client.DriftIgnored)}, false}} {
		t.Run(name, func(t *testing.T) {
			binary, err := buildServer()
			must(t, err)
			directory, err := os.MkdirTemp("", "nc")
			must(t, err)
			t.Cleanup(func() { os.RemoveAll(directory) })
			g := &generations{t: t, binary: binary, address: "unix:" + filepath.Join(directory, "s")}
			t.Cleanup(g.end)
			g.replace(1)
			c, ctx := newClient(t, g.address, row.options...), context.Background()
			described, err := c.Describe(ctx, "transfer")
			must(t, err)
			generated := client.GeneratedFrom(string(described.JSON()))
			two := client.Func2[string, string, string](c, "transfer", generated)
			many := client.FuncN[string](c, "transfer", generated)
			expect := func(refused bool) {
				t.Helper()
				said, err := two(ctx, "alice", "bob")
				also, errToo := many(ctx, "alice", "bob")
				if !refused {
					must(t, err)
					must(t, errToo)
					if said != also || !strings.Contains(said, "alice") {
						t.Errorf("got %q and %q", said, also)
					}
					return
				}
				expectFailure(t, errToo, status.FailedPrecondition, status.OutcomeNotExecuted)
				if failure := expectFailure(t, err, status.FailedPrecondition, status.OutcomeNotExecuted); !strings.Contains(failure.Message, "parameter 1 (src) of transfer is now parameter 2") {
					t.Errorf("%q does not say what changed", failure.Message)
				}
				ran, err := client.Call[[]string](ctx, c, "history")
				if must(t, err); len(ran) > 0 {
					t.Errorf("ran all the same: %q", ran)
				}
			}
			for range 20 {
				expect(false)
			}
			g.replace(2)
			expect(row.refused)
			g.replace(3)
			expect(false)
		})
	}
}

func TestGeneratedCodeAndCompatibleChange(t *testing.T) {
	for name, changed := range map[string]*schema.Function{
		"a parameter was renamed": transferring(t, "source", "to"),
		"another promise": func() *schema.Function {
			f := *transferring(t, "from", "to")
			f.Idempotent = true
			return rehashed(t, &f)
		}(),
		"a parameter more": describe(t, "transfer", func(string, string, *int64) {}, "from", "to", "cents"),
	} {
		t.Run(name, func(t *testing.T) {
			p := describingPeer(t)
			transfer := client.Func2[string, string, client.None](p.client(), "transfer", client.GeneratedFrom(string(transferring(t, "from", "to").JSON())))
			done := make(chan error, 1)
			go func() { _, err := transfer(context.Background(), "alice", "bob"); done <- err }()
			conn := p.serveDescribing()
			conn.answer(changed)
			conn.reply(conn.expectCheck(changed), []byte{0xC0})
			must(t, <-done)
		})
	}
}

// rehashed is f as a server would describe it.
func rehashed(t *testing.T, f *schema.Function) *schema.Function {
	t.Helper()
	f.Hash = ""
	read, err := schema.ParseFunctionJSON(f.JSON())
	must(t, err)
	return read
}

func TestDriftIsLoggedOnce(t *testing.T) {
	p, log := describingPeer(t), new(logLines)
	c := p.client(client.WithDrift(client.DriftLogged), client.WithLogger(log.logger()))
	transfer := client.Func2[string, string, client.None](c, "transfer", client.GeneratedFrom(string(transferring(t, "from", "to").JSON())))
	changed := transferring(t, "to", "from")
	var conn *peerConn
	for count := range 3 {
		done := make(chan error, 1)
		go func() { _, err := transfer(context.Background(), "alice", "bob"); done <- err }()
		if count == 0 {
			conn = p.serveDescribing()
			conn.answer(changed)
		}
		conn.reply(conn.expectCheck(changed), []byte{0xC0})
		must(t, <-done)
	}
	if lines := log.count("parameter 1 (from) of transfer is now parameter 2"); lines != 1 {
		t.Errorf("logged %d times", lines)
	}
}

func TestGeneratedFromNonsense(t *testing.T) {
	p := describingPeer(t)
	done := make(chan error, 1)
	transfer := client.FuncN[any](p.client(), "transfer", client.GeneratedFrom("{"))
	go func() { _, err := transfer(context.Background()); done <- err }()
	conn := p.serveDescribing()
	conn.answer(transferring(t))
	expectFailure(t, <-done, status.InvalidArgument, status.OutcomeNotExecuted)
}

func TestFuncNWithoutADescription(t *testing.T) {
	sum := client.FuncN[int64](demoClient(t), "sum")
	total, err := sum(context.Background(), 1, 2, 3)
	if must(t, err); total != 6 {
		t.Errorf("1, 2 and 3 are %d", total)
	}
	_, err = sum(context.Background(), "one")
	expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
}
