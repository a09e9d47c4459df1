package client_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/forward"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

// openClient is newClient without looking for goroutines at the end: those of a proxy's client
// are still there when the clients of its callers close.
func openClient(t *testing.T, address string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(address, options...)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// serveWith is serve with options of the server, at a socket of its own.
func serveWith(t *testing.T, register func(*server.Server), options ...server.Option) (address string) {
	t.Helper()
	s, err := server.New(append([]server.Option{server.WithLogger(slog.New(slog.DiscardHandler))}, options...)...)
	must(t, err)
	register(s)
	address = "unix:" + filepath.Join(t.TempDir(), "s")
	listener, err := s.Listen(t.Context(), address)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		must(t, <-served)
	})
	return address
}

// passOn serves what far has, by passing calls on.
func passOn(t *testing.T, far *client.Client, options ...server.Option) (address string) {
	t.Helper()
	document, err := far.Schema(context.Background())
	must(t, err)
	return serveWith(t, func(s *server.Server) {
		for _, f := range document.Functions {
			must(t, s.RegisterForwarded(f.JSON(), far.Forward))
		}
	}, options...)
}

func registerAll(s *server.Server) {
	demo.Register(s)
	demo.RegisterMetadata(s)
}

// callsOf says what calls of every kind return.
func callsOf(c *client.Client) []string {
	ctx := context.Background()
	var said []string
	say := func(what string, value any, err error) {
		said = append(said, fmt.Sprintf("%s: %v, %v", what, value, err))
	}
	for _, row := range []struct {
		name string
		args []any
	}{
		{"ack", []any{2, 3}}, {"ack", []any{9, 9}}, {"sum", []any{1, 2, 3}}, {"divmod", []any{17, 5}}, {"divmod", []any{1, 0}},
		{"optional_sum", []any{1, nil}}, {"greet", []any{person{"Ada", nil, []string{"a"}}}}, {"upper", []any{"grün"}},
		{"move", []any{point{1, 2}, point{3, 4}}}, {"identity", []any{map[string]any{"a": []any{int64(1), "b", nil}}}},
		{"later", []any{time.Unix(7, 8), time.Hour}}, {"word_count", []any{"a b a"}}, {"fail", []any{9, "as asked"}}, {"plain_error", []any{"plain"}},
		{"panic", []any{"here"}}, {"sleep", []any{1}}, {"no_such_function", nil}, {"ack", []any{"x", 1}}, {"echo", []any{[]byte("bytes")}},
		{"scale", []any{[]float64{1, 2, 3}, 2.0}}, {"reverse", []any{[]int64{1, 2}}},
	} {
		value, err := client.Call[any](ctx, c, row.name, row.args...)
		say(row.name, value, err)
	}
	scaled, err := client.Func2[[]float64, float64, []float64](c, "scale")(ctx, numbersUpTo(1000), 2)
	say("typed scale", scaled, err)
	for _, bytesCount := range []int{0, 1, 100, 20 << 10, 3 << 20} {
		got, err := c.CallRaw(ctx, "echo", bytes.Repeat([]byte{7}, bytesCount), nil)
		say("raw", fmt.Sprintf("%d of %d, %v", len(got), bytesCount, len(got) == 0 || got[len(got)-1] == 7), err)
	}
	filled, err := client.Call[[]byte](ctx, c, "fill", 2_500_000)
	say("fill", len(filled), err)
	_, err = client.Call[[]byte](ctx, c, "fill", 6_000_000)
	say("fill more than is accepted", status.FromError(err).Outcome, nil)
	packed, err := c.CallMessagePack(ctx, "ack", []byte("\x92\x02\x03"), []byte("before "))
	say("MessagePack", packed, err)
	for _, arguments := range []string{"[2, 3]", "[9, 9]", `["x"]`, "no JSON", ""} {
		text, err := c.CallJSON(ctx, "ack", []byte(arguments), []byte("before "))
		say("JSON", string(text), err)
	}
	return said
}

// Calls that are passed on return and fail as direct calls do, in every encoding.
func TestForwardedCallsAreAsDirectOnes(t *testing.T) {
	for _, way := range []string{"unix:", "tcp:127.0.0.1:0"} {
		t.Run(way, func(t *testing.T) {
			if way == "unix:" {
				way += filepath.Join(t.TempDir(), "far")
			}
			far := openClient(t, serve(t, way, registerAll))
			near := openClient(t, passOn(t, far))
			direct := callsOf(far)
			for round := range 3 { // the later ones through shared memory, and by ids
				got := callsOf(near)
				for i := range direct {
					if got[i] != direct[i] {
						t.Errorf("round %d: %.300s; the direct call: %.300s", round, got[i], direct[i])
					}
				}
			}
		})
	}
}

func TestForwardedMetadata(t *testing.T) {
	far := openClient(t, serveWith(t, registerAll))
	near := openClient(t, passOn(t, far))
	ctx := context.Background()
	var answered map[string][]string
	options := []client.CallOption{client.Metadata("tenant", "acme"), client.Metadata("tenant", "b"), client.IdempotencyKey([16]byte{1, 2}),
		client.TraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), client.ReplyMetadata(&answered)}
	want, err := client.Call[string](ctx, far.With(options...), "metadata_seen")
	must(t, err)
	for range 20 {
		got, err := client.Call[string](ctx, near.With(options...), "metadata_seen")
		must(t, err)
		if got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	for _, fails := range []bool{false, true} {
		err := near.With(options...).Call(ctx, "metadata_answer", nil, 100, fails)
		if fails != (err != nil) || !slices.Equal(answered["cost"], []string{"7", "8"}) || !slices.Equal(answered["node"], []string{"a"}) {
			t.Errorf("%v with %v", err, answered)
		}
	}
	// Those of the proxy's own view travel as well.
	own := openClient(t, passOn(t, far.With(client.Metadata("proxy", "p"))))
	if got, err := client.Call[string](ctx, own.With(client.Metadata("tenant", "acme")), "metadata_seen"); err != nil || !strings.Contains(got, "proxy") || !strings.Contains(got, "acme") {
		t.Errorf("%s, %v", got, err)
	}
}

// Deadline and cancellation end the context of the function, however many servers are between.
func TestForwardedContextEnds(t *testing.T) {
	ended := make(chan error, 1)
	far := openClient(t, serveWith(t, func(s *server.Server) {
		s.Register("wait", func(ctx context.Context) error {
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		})
		s.Register("bounded", func(ctx context.Context) bool { _, bounded := ctx.Deadline(); return bounded })
	}))
	middle := openClient(t, passOn(t, far))
	near := openClient(t, passOn(t, middle))
	await := func(possible ...error) {
		t.Helper()
		select {
		case err := <-ended:
			if !slices.Contains(possible, err) {
				t.Errorf("the context ends with %v, want %v", err, possible)
			}
		case <-time.After(patience):
			t.Fatal("the context of the function does not end")
		}
	}
	err := near.Call(shortContext(t), "wait", nil)
	expectFailure(t, err, status.DeadlineExceeded, status.OutcomeUnknown)
	await(context.DeadlineExceeded, context.Canceled) // the caller gives up at the same time
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(short, cancel)
	expectFailure(t, near.Call(ctx, "wait", nil), status.Cancelled, status.OutcomeUnknown)
	await(context.Canceled)
	if bounded, err := client.Call[bool](context.Background(), near.With(client.Timeout(client.NoTimeout)), "bounded"); err != nil || bounded {
		t.Errorf("a call that may wait for ever is bounded: %v", err)
	}
}

// A proxy whose server is gone says so, and the caller may repeat the call; the proxy does not.
func TestForwardMakesOneAttempt(t *testing.T) {
	far := openClient(t, "unix:"+filepath.Join(t.TempDir(), "none"), client.WithAttempts(5))
	before := far.Statistics().RetriesTotal
	request := forward.Request{Function: "f", Codec: intercept.Raw}
	reply, err := far.With(client.WaitForReady()).Forward(shortContext(t), &request, []byte("before"))
	expectFailure(t, err, status.Unavailable, status.OutcomeNotExecuted)
	if string(reply.Payload) != "before" || far.Statistics().RetriesTotal != before {
		t.Errorf("%q, %d retries", reply.Payload, far.Statistics().RetriesTotal-before)
	}
}

// The server where a function runs refuses what was encoded by another description.
func TestForwardChecksTheDescription(t *testing.T) {
	c := openClient(t, serveWith(t, registerAll))
	f, err := c.Describe(context.Background(), "ack")
	must(t, err)
	parsed := describe(t, "ack", func(m, n int64) (int64, error) { return 0, nil }, "m", "n")
	request := forward.Request{Function: f.Name, Codec: intercept.MessagePack, Check: parsed.Check() + 1, Payload: []byte("\x92\x02\x03")}
	_, err = c.Forward(context.Background(), &request, nil)
	expectFailure(t, err, status.Aborted, status.OutcomeNotExecuted)
	request.Check = 0
	reply, err := c.Forward(context.Background(), &request, nil)
	if err != nil || string(reply.Payload) != "\x09" {
		t.Errorf("% X, %v", reply.Payload, err)
	}
}

// A request of the simple protocol that says its description is refused by the successor of the server that was
// described, as it is without a server between.
func TestForwardedSimpleRequestChecksTheDescription(t *testing.T) {
	var runs atomic.Int32
	far := openClient(t, serveWith(t, func(s *server.Server) {
		must(t, s.Register("transfer", func(to, from string) { runs.Add(1) }, server.Params("to", "from")))
	}))
	former := transferring(t, "from", "to")
	near := serveWith(t, func(s *server.Server) { must(t, s.RegisterForwarded(former.JSON(), far.Forward)) })
	conn, err := net.Dial("unix", strings.TrimPrefix(near, "unix:"))
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	for _, d := range []string{`,"d":"` + former.Hash + `"`, ""} {
		request := `{"f":"transfer","a":["alice","bob"]` + d + `}`
		_, err = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...))
		must(t, err)
		var size [4]byte
		_, err = io.ReadFull(conn, size[:])
		must(t, err)
		answer := make([]byte, binary.BigEndian.Uint32(size[:]))
		_, err = io.ReadFull(conn, answer)
		must(t, err)
		refused := strings.Contains(string(answer), `"ABORTED"`) && strings.Contains(string(answer), `"not executed"`)
		if checked := d != ""; refused != checked || (runs.Load() == 0) != checked {
			t.Errorf("%s is answered with %s after %d runs", request, answer, runs.Load())
		}
	}
}

// A server that takes no blocks is given lists, and one that checks no descriptions nothing.
func TestForwardToAnOlderServer(t *testing.T) {
	p := describingPeer(t)
	p.welcome.Accepted &^= wire.FeaturePackedLists
	c := p.client()
	done := make(chan error, 1)
	go func() {
		request := forward.Request{Function: "scale", Codec: intercept.Packed, Payload: packedArguments(t)}
		_, err := c.Forward(context.Background(), &request, nil)
		done <- err
	}()
	conn := p.serveDescribing()
	asked := conn.expect(wire.Request)
	if asked.Codec != wire.CodecMessagePack || bytes.Equal(asked.Payload, packedArguments(t)) {
		t.Errorf("a request in %v, % X", asked.Codec, asked.Payload)
	}
	conn.send(replyTo(asked, []byte{0x90}))
	must(t, <-done)
	conn.end()

	p.welcome.Accepted &^= wire.FeatureDescriptions
	go func() {
		request := forward.Request{Function: "scale", Codec: intercept.MessagePack, Check: 7, Payload: []byte{0x90}}
		_, err := c.Forward(context.Background(), &request, nil)
		done <- err
	}()
	p.serveDescribing()
	expectFailure(t, <-done, status.Unimplemented, status.OutcomeNotExecuted)
}

// Values above the frame pass from store to store, and a server that takes none of that size
// says so before anything runs.
func TestForwardedLargeValues(t *testing.T) {
	const bytesCount = 20 << 20
	room := []server.Option{server.WithValueBytesMax(32 << 20)}
	accepts := client.WithValueBytesMax(32 << 20)
	data := bytes.Repeat([]byte("0123456789abcdef"), bytesCount/16)
	far := openClient(t, serveWith(t, registerAll, room...), accepts)
	near := openClient(t, passOn(t, far, room...), accepts)
	got, err := near.CallRaw(context.Background(), "echo", data, nil)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back as %d: %v", len(data), len(got), err)
	}
	small := openClient(t, serveWith(t, registerAll))
	refused := openClient(t, passOn(t, small, room...), accepts)
	_, err = refused.CallRaw(context.Background(), "echo", data, nil)
	failure := expectFailure(t, err, status.ResourceExhausted, status.OutcomeNotExecuted)
	if !strings.Contains(failure.Message, "frame_bytes_max") {
		t.Errorf("%v does not name the limit", failure)
	}
}

// packedArguments are those of scale, with a block.
func packedArguments(t *testing.T) []byte {
	t.Helper()
	list, numbers := numbersUpTo(100), []byte{0x92}
	by, err := codec.For[[]float64](codec.PackLists)
	must(t, err)
	numbers, err = by.Append(numbers, &list)
	must(t, err)
	return append(numbers, 0x02)
}
