package services_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	engine "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/gateway/nats/internal/services"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

// patience bounds every wait for something that must happen.
const patience = 10 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func startEngine(t testing.TB, options engine.Options) *engine.Server {
	t.Helper()
	options.Host, options.Port, options.NoLog, options.NoSigs = "127.0.0.1", engine.RANDOM_PORT, true, true
	made, err := engine.NewServer(&options)
	must(t, err)
	made.Start()
	t.Cleanup(func() {
		made.Shutdown()
		made.WaitForShutdown()
	})
	if !made.ReadyForConnections(patience) {
		t.Fatal("the engine does not get ready")
	}
	return made
}

func connect(t testing.TB, e *engine.Server) *nats.Conn {
	t.Helper()
	connection, err := nats.Connect(e.ClientURL(), nats.ReconnectBufSize(-1), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	must(t, err)
	t.Cleanup(connection.Close)
	return connection
}

// A served is a server of functions and a client of it.
type served struct {
	client    *client.Client
	functions []*client.Function
}

func serve(t testing.TB, register func(*server.Server), options ...server.Option) *served {
	t.Helper()
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	s, err := server.New(append(options, server.WithLogger(slog.New(slog.DiscardHandler)))...)
	must(t, err)
	register(s)
	ctx, stop := context.WithCancel(context.Background())
	address := "unix:" + filepath.Join(directory, "s")
	listener, err := s.Listen(ctx, address)
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	c, err := client.New(address)
	must(t, err)
	t.Cleanup(func() {
		c.Close()
		stop()
		<-ended
		os.RemoveAll(directory)
	})
	document, err := c.Schema(ctx)
	must(t, err)
	return &served{c, document.Functions}
}

func registerAll(s *server.Server) {
	demo.Register(s)
	demo.RegisterMetadata(s)
}

// A stage is a service, and a connection of somebody who calls it.
type stage struct {
	*services.Service
	caller *nats.Conn
}

func start(t testing.TB, of *served, config services.Config) *stage {
	t.Helper()
	return startAt(t, startEngine(t, engine.Options{}), of, config)
}

func startAt(t testing.TB, e *engine.Server, of *served, config services.Config) *stage {
	t.Helper()
	connection := connect(t, e)
	calls, err := services.NewCalls(connection, "nearcall")
	must(t, err)
	t.Cleanup(calls.Close)
	if config.Workers == nil {
		config.Workers = services.NewWorkers(64)
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	config.Connection, config.Calls, config.Prefix, config.Name, config.Version = connection, calls, "nearcall", "demo", "1.2.3"
	config.Client, config.Functions = of.client, of.functions
	service, err := services.Start(config)
	must(t, err)
	t.Cleanup(func() { service.Stop(ended()) })
	must(t, connection.FlushTimeout(patience))
	return &stage{service, connect(t, e)}
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// call sends a body to a function, with headers as "Name: value".
func (s *stage) call(t testing.TB, function, body string, headers ...string) *nats.Msg {
	t.Helper()
	answer, err := s.caller.RequestMsg(request(function, body, headers...), patience)
	must(t, err)
	return answer
}

func request(function, body string, headers ...string) *nats.Msg {
	m := nats.NewMsg("nearcall.f.demo." + function)
	m.Data = []byte(body)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		m.Header.Add(name, value)
	}
	return m
}

// A failure is the body of an error.
type failure struct {
	Code, Outcome, Message string
	Details                []struct {
		Type  string
		Value any
	}
}

// failed checks that an answer is an error, in its headers and its body. An outcome of "" stands for
// any.
func failed(t testing.TB, answer *nats.Msg, number, code, outcome string, texts ...string) failure {
	t.Helper()
	var f failure
	if err := json.Unmarshal(answer.Data, &f); err != nil {
		t.Fatalf("%v: %q", err, answer.Data)
	}
	if got := answer.Header.Get("Nats-Service-Error-Code"); got != number || f.Code != code || outcome != "" && f.Outcome != outcome {
		t.Errorf("got %s %s %q %q, want %s %s %q", got, f.Code, f.Outcome, f.Message, number, code, outcome)
	}
	for _, text := range texts {
		if !strings.Contains(f.Message, text) || !strings.Contains(answer.Header.Get("Nats-Service-Error"), text) {
			t.Errorf("%q is missing in %q and %q", text, f.Message, answer.Header)
		}
	}
	return f
}

func TestCalls(t *testing.T) {
	s := start(t, serve(t, registerAll), services.Config{})
	for _, row := range []struct{ function, body, want string }{
		{"add", "[1, 2.5]", "3.5"},
		{"one", "", "1"},
		{"one", "[]", "1"},
		{"upper", `"abc"`, `"ABC"`},
		{"upper", ` "abc" `, `"ABC"`},
		{"sum", "[1,2,3]", "6"},
		{"divmod", "[-17, 5]", "[-3,-2]"},
		{"greet", `{"name": "Ada", "tags": ["first"]}`, `"Hello, Ada [first]"`},
		{"reverse", "[[1,2,3]]", "[3,2,1]"},
		{"identity", "null", "null"},
		{"echo", `["aGVsbG8="]`, `"aGVsbG8="`},
	} {
		answer := s.call(t, row.function, row.body)
		if string(answer.Data) != row.want || answer.Header.Get("Nats-Service-Error") != "" {
			t.Errorf("%s %s: got %s %v, want %s", row.function, row.body, answer.Data, answer.Header, row.want)
		}
	}
}

// Nobody gets the gateway to publish at subjects of gateways, by asking for an answer there.
func TestReplySubjectsOfGateways(t *testing.T) {
	s := start(t, serve(t, registerAll), services.Config{})
	got, err := s.caller.SubscribeSync("nearcall.member")
	must(t, err)
	for _, subject := range []string{"nearcall.f.demo.identity", "$SRV.PING.demo"} {
		must(t, s.caller.PublishRequest(subject, "nearcall.member", []byte(`{"v": 1}`)))
		_, err := s.caller.Request(subject, nil, patience) // comes behind the other
		must(t, err)
	}
	s.Stop(ended()) // everything was answered
	must(t, s.caller.FlushTimeout(patience))
	if many, _, _ := got.Pending(); many != 0 {
		t.Errorf("%d answers", many)
	}
}

func TestErrors(t *testing.T) {
	s := start(t, serve(t, registerAll), services.Config{})
	f := failed(t, s.call(t, "fail", `[5, "there is no \"blue\""]`), "404", "NOT_FOUND", "executed", `there is no "blue"`)
	if len(f.Details) != 1 || f.Details[0].Type != "example.Hint" || fmt.Sprint(f.Details[0].Value) != "map[hint:this is what fail is for]" {
		t.Errorf("the details are %v", f.Details)
	}
	for code, number := range map[int]string{1: "499", 2: "500", 3: "400", 4: "408", 5: "404", 6: "409", 7: "403", 8: "429", 9: "400", 10: "409",
		11: "400", 12: "501", 13: "500", 14: "503", 15: "500", 16: "401"} {
		if got := s.call(t, "fail", fmt.Sprintf(`[%d, "x"]`, code)).Header.Get("Nats-Service-Error-Code"); got != number {
			t.Errorf("code %d became %s, want %s", code, got, number)
		}
	}
	failed(t, s.call(t, "add", `[1, "two"]`), "400", "INVALID_ARGUMENT", "not executed")
	failed(t, s.call(t, "add", `[1`), "400", "INVALID_ARGUMENT", "not executed")
	failed(t, s.call(t, "upper", `hello`), "400", "INVALID_ARGUMENT", "not executed", "write an array of the arguments")
	failed(t, s.call(t, "upper", `"a", "b`), "400", "INVALID_ARGUMENT", "not executed", "write an array of the arguments")
	failed(t, s.call(t, "plain_error", "\"two\\nlines\""), "500", "UNKNOWN", "executed")
	failed(t, s.call(t, "panic", `"x"`), "500", "INTERNAL", "executed")
	if got := s.call(t, "plain_error", "\"two\\nlines\"").Header.Get("Nats-Service-Error"); got != "two lines" {
		t.Errorf("the header says %q", got)
	}
}

func TestHeaders(t *testing.T) {
	s := start(t, serve(t, registerAll), services.Config{})
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	seen := string(s.call(t, "metadata_seen", "", "traceparent: "+trace, "Nearcall-Metadata-tenant: acme", "Nearcall-Metadata-tenant: b",
		"Nearcall-Idempotency-Key: 000102030405060708090a0b0c0d0e0f").Data)
	for _, want := range []string{trace, `tenant`, `acme`, `[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]`} {
		if !strings.Contains(seen, want) {
			t.Errorf("%q is missing in %s", want, seen)
		}
	}
	// A client may write headers as HTTP does.
	if seen := string(s.call(t, "metadata_seen", "", http.CanonicalHeaderKey("nearcall-metadata-tenant")+": acme").Data); !strings.Contains(seen, "acme") {
		t.Errorf("got %s", seen)
	}
	answer := s.call(t, "metadata_answer", "[0, false]")
	if got := answer.Header.Values("Nearcall-Metadata-cost"); fmt.Sprint(got) != "[7 8]" || answer.Header.Get("Nearcall-Metadata-node") != "a" {
		t.Errorf("the headers of the answer are %v", answer.Header)
	}
	answer = s.call(t, "metadata_answer", "[0, true]")
	failed(t, answer, "404", "NOT_FOUND", "executed", "there is none")
	if answer.Header.Get("Nearcall-Metadata-node") != "a" {
		t.Errorf("the headers of the error are %v", answer.Header)
	}
	for _, wrong := range []string{"Nearcall-Timeout-Ms: 0", "Nearcall-Timeout-Ms: 1s", "Nearcall-Timeout-Ms: 4294967296", "Nearcall-Call: a.b", "Nearcall-Call: ",
		"Nearcall-Idempotency-Key: 00", "traceparent: x", "Nearcall-Metadata-a+b: c"} {
		failed(t, s.call(t, "one", "", wrong), "400", "INVALID_ARGUMENT", "not executed")
	}
}

// held is a function that waits until its context ends, and says when it has begun and how it ended.
type held struct{ began, ended chan error }

func newHeld() *held { return &held{make(chan error, 1000), make(chan error, 1000)} }

func (h *held) register(s *server.Server) {
	s.Register("hold", func(ctx context.Context) error {
		h.began <- nil
		<-ctx.Done()
		h.ended <- ctx.Err()
		return ctx.Err()
	})
	s.Register("one", func() int64 { return 1 })
}

func await(t testing.TB, what string, from chan error) error {
	t.Helper()
	select {
	case err := <-from:
		return err
	case <-time.After(patience):
		t.Fatalf("%s did not happen in %v", what, patience)
		return nil
	}
}

// A call that is being made, with its answer.
func (s *stage) begin(t testing.TB, function, body string, headers ...string) (answer *nats.Subscription) {
	t.Helper()
	inbox := s.caller.NewInbox()
	answer, err := s.caller.SubscribeSync(inbox)
	must(t, err)
	m := request(function, body, headers...)
	m.Reply = inbox
	must(t, s.caller.PublishMsg(m))
	return answer
}

func next(t testing.TB, answers *nats.Subscription) *nats.Msg {
	t.Helper()
	m, err := answers.NextMsg(patience)
	must(t, err)
	return m
}

func TestDeadline(t *testing.T) {
	h := newHeld()
	s := start(t, serve(t, h.register), services.Config{})
	began := time.Now()
	failed(t, s.call(t, "hold", "", "Nearcall-Timeout-Ms: 100"), "408", "DEADLINE_EXCEEDED", "") // The function returns as soon as it knows.
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	await(t, "the end of the function's context", h.ended)
}

func TestCancel(t *testing.T) {
	h := newHeld()
	s := start(t, serve(t, h.register), services.Config{})
	answers := s.begin(t, "hold", "", "Nearcall-Call: mine")
	others := s.begin(t, "hold", "", "Nearcall-Call: another")
	await(t, "the call", h.began)
	await(t, "the other call", h.began)
	_, err := s.caller.Request("nearcall.cancel.mine", nil, patience)
	must(t, err)
	failed(t, next(t, answers), "499", "CANCELLED", "unknown", "cancelled by a message")
	await(t, "the end of the function's context", h.ended)
	if len(h.ended) > 0 {
		t.Error("the other call has ended as well")
	}
	must(t, s.caller.Publish("nearcall.cancel.another", nil))
	failed(t, next(t, others), "499", "CANCELLED", "unknown")
}

// Slow calls hold up nobody, and when all places are taken the answer comes at once.
func TestPlaces(t *testing.T) {
	h := newHeld()
	const places = 16
	s := start(t, serve(t, h.register), services.Config{Workers: services.NewWorkers(places)})
	for range places - 1 {
		s.begin(t, "hold", "", "Nearcall-Call: all")
		await(t, "a slow call", h.began)
	}
	began := time.Now()
	if got := s.call(t, "one", ""); string(got.Data) != "1" {
		t.Fatalf("got %s", got.Data)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("a quick call took %v", took)
	}
	s.begin(t, "hold", "", "Nearcall-Call: all")
	await(t, "the last slow call", h.began)
	f := failed(t, s.call(t, "one", ""), "429", "RESOURCE_EXHAUSTED", "not executed", "16 requests")
	if len(f.Details) != 1 || f.Details[0].Value != "gateway_workers" {
		t.Errorf("the details are %v", f.Details)
	}
	_, err := s.caller.Request("nearcall.cancel.all", nil, patience)
	must(t, err)
	for range places {
		await(t, "the end of a slow call", h.ended)
	}
}

// A result that the engine does not take is an error that says so, and so is one with headers.
func TestLargeResults(t *testing.T) {
	e := startEngine(t, engine.Options{MaxPayload: 8 << 10})
	s := startAt(t, e, serve(t, registerAll), services.Config{})
	if got := s.call(t, "fill", "6000"); len(got.Data) != 8002 {
		t.Fatalf("got %d bytes: %.100s", len(got.Data), got.Data)
	}
	f := failed(t, s.call(t, "fill", "10000"), "429", "RESOURCE_EXHAUSTED", "executed, result lost", "this engine takes 8192")
	if len(f.Details) != 1 || f.Details[0].Value != "max_payload" {
		t.Errorf("the details are %v", f.Details)
	}
	failed(t, s.call(t, "metadata_answer", "[6100, false]"), "429", "RESOURCE_EXHAUSTED", "executed, result lost")
	// An error that would be too large loses its details.
	f = failed(t, s.call(t, "fail", fmt.Sprintf("[5, %q]", strings.Repeat("x", 4000))), "404", "NOT_FOUND", "executed", "xxx")
	if len(f.Details) != 1 {
		t.Errorf("the details are %v", f.Details)
	}
}

// A service that stops answers what it has begun, and its requests go to others.
func TestStop(t *testing.T) {
	h := newHeld()
	of := serve(t, h.register)
	e := startEngine(t, engine.Options{})
	first := startAt(t, e, of, services.Config{})
	answers := first.begin(t, "hold", "", "Nearcall-Call: it")
	await(t, "the call", h.began)
	second := startAt(t, e, of, services.Config{})
	stopped := make(chan error, 1)
	go func() {
		first.Stop(context.Background())
		stopped <- nil
	}()
	for range 50 {
		if got := second.call(t, "one", ""); string(got.Data) != "1" {
			t.Fatalf("got %s %v", got.Data, got.Header)
		}
	}
	if len(stopped) > 0 {
		t.Fatal("it did not wait for the call")
	}
	must(t, second.caller.Publish("nearcall.cancel.it", nil))
	failed(t, next(t, answers), "499", "CANCELLED", "unknown")
	await(t, "the end", stopped)
}

// When time is up, calls that are left are given up, and their callers are told.
func TestStopGivesUp(t *testing.T) {
	h := newHeld()
	s := start(t, serve(t, h.register), services.Config{})
	answers := s.begin(t, "hold", "")
	await(t, "the call", h.began)
	s.Stop(ended())
	failed(t, next(t, answers), "503", "UNAVAILABLE", "unknown", "the gateway is stopping")
	await(t, "the end of the function's context", h.ended)
	if _, err := s.caller.Request("nearcall.f.demo.one", nil, patience); err != nats.ErrNoResponders {
		t.Errorf("got %v", err)
	}
}

// A message that nobody waits for is not run.
func TestWithoutReply(t *testing.T) {
	s := start(t, serve(t, registerAll), services.Config{})
	before := string(s.call(t, "count", "").Data)
	must(t, s.caller.Publish("nearcall.f.demo.count", nil))
	after := string(s.call(t, "count", "").Data)
	if before != "1" || after != "2" {
		t.Errorf("counted %s, then %s", before, after)
	}
}
