package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	engine "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/client"
	gateway "github.com/nearcall/nearcall/gateway/nats"
	"github.com/nearcall/nearcall/status"
)

// outcomeWithin is how long a caller may wait for the outcome of a call after a gateway was killed,
// besides what the machine is late by.
const outcomeWithin = time.Second

// childConfig is the environment variable that makes a gateway of this program.
const childConfig = "NEARCALL_TEST_GATEWAY"

func TestMain(m *testing.M) {
	if text := os.Getenv(childConfig); text != "" {
		os.Exit(runChild(text))
	}
	os.Exit(m.Run())
}

// childTold is what such a gateway is told of its Config.
type childTold struct {
	Name, Host, Listen string
	Engine             gateway.Engine
	Exports            []gateway.Export
}

// runChild is a gateway in a process of its own.
func runChild(text string) int {
	var told childTold
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	made, err := gateway.New(gateway.Config{Name: told.Name, Host: told.Host, Listen: told.Listen, Engine: told.Engine, Exports: told.Exports,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		// The parent's end of the pipe is closed when it ends, whatever happens to it.
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := made.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A child is a gateway in a process of its own, which can be killed and stopped.
type child struct {
	*exec.Cmd
	listen string
	once   sync.Once
}

func startChild(t testing.TB, config gateway.Config) *child {
	t.Helper()
	if config.Listen == here {
		config.Listen = "unix:" + filepath.Join(t.TempDir(), "g")
	}
	text, err := json.Marshal(childTold{config.Name, config.Host, config.Listen, config.Engine, config.Exports})
	must(t, err)
	c := &child{Cmd: exec.Command(os.Args[0]), listen: config.Listen}
	c.Env = append(os.Environ(), childConfig+"="+string(text))
	c.Stderr = os.Stderr
	_, err = c.StdinPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(c.kill)
	return c
}

// kill ends it at once, even if it is stopped.
func (c *child) kill() {
	c.once.Do(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
}

// lateness says how late this machine was at worst since it was made.
type lateness struct {
	stop  chan struct{}
	worst chan time.Duration
}

func watchLateness() *lateness {
	l := &lateness{make(chan struct{}), make(chan time.Duration, 1)}
	go func() {
		const step = 5 * time.Millisecond
		worst, last := time.Duration(0), time.Now()
		for {
			select {
			case <-l.stop:
				l.worst <- worst
				return
			case <-time.After(step):
			}
			worst = max(worst, time.Since(last)-step)
			last = time.Now()
		}
	}()
	return l
}

func (l *lateness) end() time.Duration {
	close(l.stop)
	return <-l.worst
}

// holdThrough begins a call of hold, and returns when it runs.
func holdThrough(t *testing.T, c *client.Client, b *backend) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- c.With(client.Timeout(patience)).Call(context.Background(), "hold", nil) }()
	select {
	case <-b.holds:
	case err := <-ended:
		t.Fatalf("the call ends before its function has begun: %v", err)
	case <-time.After(patience):
		t.Fatal("the function does not begin")
	}
	return ended
}

// awaitOutcome returns how a call ended, and fails if that took too long.
func awaitOutcome(t *testing.T, ended <-chan error) *status.Error {
	t.Helper()
	late, began := watchLateness(), time.Now()
	select {
	case err := <-ended:
		took, worst := time.Since(began), late.end()
		t.Logf("after %v, on a machine that was late by %v: %v", took.Round(time.Millisecond), worst.Round(time.Millisecond), err)
		if took > outcomeWithin+4*worst {
			t.Errorf("the outcome came after %v", took)
		}
		return status.FromError(err)
	case <-time.After(patience):
		t.Fatal("the call does not end")
	}
	return nil
}

// A gateway that exports is killed with a call in flight. Its caller learns the outcome within a
// second: unknown, because nobody can be asked. Later calls are not executed, and say why.
func TestExportingGatewayIsKilled(t *testing.T) {
	broker, b := startEngine(t, engine.Options{}), startBackend(t, "b", "")
	exporter := startChild(t, gateway.Config{Name: "b", Host: "b", Engine: urls(broker), Exports: []gateway.Export{{Name: "demo", Address: b.address}}})
	a := startGateway(t, gateway.Config{Name: "a", Host: "a", Engine: urls(broker), Listen: here})
	awaitFunction(t, a, "who", 1)
	c := callAt(t, a.listen)
	ended := holdThrough(t, c, b)
	exporter.kill()
	if failure := awaitOutcome(t, ended); failure.Code != status.Unavailable || failure.Outcome != status.OutcomeUnknown {
		t.Errorf("the call in flight: %v", failure)
	}
	if code, outcome := outcomeOf(c.Call(context.Background(), "who", nil)); code != status.Unavailable || outcome != status.OutcomeNotExecuted {
		t.Errorf("a later call: %v, %v", code, outcome)
	}
}

// If the gateway is replaced at once, the server itself is asked through its successor, so that the
// outcome is a fact.
func TestServerIsAskedThroughARestartedGateway(t *testing.T) {
	broker, b := startEngine(t, engine.Options{}), startBackend(t, "b", "")
	config := gateway.Config{Name: "b", Host: "b", Engine: urls(broker), Exports: []gateway.Export{{Name: "demo", Address: b.address}}}
	exporter := startChild(t, config)
	a := startGateway(t, gateway.Config{Name: "a", Host: "a", Engine: urls(broker), Listen: here})
	awaitFunction(t, a, "who", 1)
	c := callAt(t, a.listen)
	ended := holdThrough(t, c, b)
	exporter.kill()
	startGateway(t, config)
	failure := awaitOutcome(t, ended)
	if failure.Outcome != status.OutcomeExecutedResultLost || !strings.Contains(failure.Message, "the server says") {
		t.Errorf("%v", failure)
	}
}

// The gateway of the callers is killed. They know from its start marks what it had begun, and their
// functions end.
func TestImportingGatewayIsKilled(t *testing.T) {
	broker, b := startEngine(t, engine.Options{}), startBackend(t, "b", "")
	startGateway(t, gateway.Config{Name: "b", Host: "b", Engine: urls(broker), Exports: []gateway.Export{{Name: "demo", Address: b.address}}})
	importer := startChild(t, gateway.Config{Name: "a", Host: "a", Engine: urls(broker), Listen: here})
	c := callAt(t, importer.listen)
	await(t, "the function to be there", func() bool { return c.Call(context.Background(), "who", nil) == nil })
	ended := holdThrough(t, c, b)
	importer.kill()
	if failure := awaitOutcome(t, ended); failure.Code != status.Unavailable || failure.Outcome != status.OutcomeUnknown {
		t.Errorf("%v", failure)
	}
	began := time.Now()
	await(t, "the end of the function's context", func() bool { return b.holding.Load() == 0 })
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the function's context ended after %v", took)
	}
}

// The engine is not there when gateways start. Functions of this machine can be called; others fail
// and say why, and can be called once the engine is there.
func TestEngineIsDownAtStart(t *testing.T) {
	port := freePort(t)
	down := gateway.Engine{URLs: []string{fmt.Sprintf("nats://127.0.0.1:%d", port)}}
	near, far := startBackend(t, "near", ""), startBackend(t, "far", "")
	startGateway(t, gateway.Config{Name: "far", Host: "far", Engine: down, Exports: []gateway.Export{{Name: "other", Address: far.address}}})
	a := startGateway(t, gateway.Config{Name: "near", Host: "near", Engine: down, Listen: here,
		Exports: []gateway.Export{{Name: "demo", Address: near.address, Functions: []string{"who"}}}})
	awaitFunction(t, a, "who", 1)
	c := callAt(t, a.listen)
	if counts := answers(t, c, 10); counts["near"] != 10 {
		t.Errorf("without an engine: %v", counts)
	}
	failure := status.FromError(c.Call(context.Background(), "one", nil))
	if failure == nil || failure.Code != status.Unavailable || failure.Outcome != status.OutcomeNotExecuted || !strings.Contains(failure.Message, "engine") {
		t.Errorf("a function of another machine without an engine: %v", failure)
	}
	startEngine(t, engine.Options{Port: port})
	awaitFunction(t, a, "one", 1)
	must(t, c.With(client.WaitForReady()).Call(context.Background(), "one", nil))
}

// The engine ends and comes back. Calls succeed again without anybody doing anything.
func TestEngineIsRestarted(t *testing.T) {
	port := freePort(t)
	broker, b := startEngine(t, engine.Options{Port: port}), startBackend(t, "b", "")
	startGateway(t, gateway.Config{Name: "b", Host: "b", Engine: urls(broker), Exports: []gateway.Export{{Name: "demo", Address: b.address}}})
	a := startGateway(t, gateway.Config{Name: "a", Host: "a", Engine: urls(broker), Listen: here})
	awaitFunction(t, a, "who", 1)
	c := callAt(t, a.listen)
	ended := holdThrough(t, c, b)
	broker.Shutdown()
	broker.WaitForShutdown()
	if failure := awaitOutcome(t, ended); failure.Outcome != status.OutcomeUnknown || !strings.Contains(failure.Message, "engine") {
		t.Errorf("the call in flight: %v", failure)
	}
	if code, outcome := outcomeOf(c.Call(context.Background(), "who", nil)); code != status.Unavailable || outcome != status.OutcomeNotExecuted {
		t.Errorf("a call without an engine: %v, %v", code, outcome)
	}
	startEngine(t, engine.Options{Port: port})
	await(t, "calls to succeed again", func() bool { return c.Call(context.Background(), "who", nil) == nil })
}

// A gateway that stops finishes the calls that it has, while others go elsewhere.
func TestDrain(t *testing.T) {
	broker := startEngine(t, engine.Options{})
	b, d := startBackend(t, "b", ""), startBackend(t, "d", "")
	stopping := startGateway(t, gateway.Config{Name: "b", Host: "b", Engine: urls(broker), Exports: []gateway.Export{{Name: "demo", Address: b.address}}})
	a := startGateway(t, gateway.Config{Name: "a", Host: "a", Engine: urls(broker), Listen: here})
	awaitFunction(t, a, "who", 1)
	startGateway(t, gateway.Config{Name: "d", Host: "d", Engine: urls(broker), Exports: []gateway.Export{{Name: "demo", Address: d.address}}})
	c := callAt(t, a.listen)
	ended := holdThrough(t, c, b)
	awaitFunction(t, a, "who", 2)
	stopped := make(chan error, 1)
	go func() { stopped <- stopping.stop() }()
	awaitFunction(t, a, "who", 1)
	if counts := answers(t, c, 20); counts["d"] != 20 {
		t.Errorf("while a gateway stops: %v", counts)
	}
	select {
	case err := <-stopped:
		t.Fatalf("it has stopped although it has a call: %v", err)
	default:
	}
	close(b.release)
	must(t, <-ended)
	must(t, <-stopped)
}

// The gateway of local callers stops, and their calls are answered first.
func TestDrainOfLocalCallers(t *testing.T) {
	p := startPair(t, gateway.Config{}, gateway.Export{})
	c := callAt(t, p.importer.listen)
	ended := holdThrough(t, c, p.server)
	stopped := make(chan error, 1)
	go func() { stopped <- p.importer.stop() }()
	await(t, "the gateway to stop listening", func() bool {
		_, err := os.Stat(strings.TrimPrefix(p.importer.listen, "unix:"))
		return err != nil
	})
	close(p.server.release)
	must(t, <-ended)
	must(t, <-stopped)
}

// A host falls silent, so that nobody says that it is gone. Calls move to another one within a second.
// Only those that it had are unknown, and it has calls again when it is back.
func TestHostFallsSilent(t *testing.T) {
	broker := startEngine(t, engine.Options{})
	b, d := startBackend(t, "b", ""), startBackend(t, "d", "")
	silent := startChild(t, gateway.Config{Name: "b", Host: "b", Engine: urls(broker), Exports: []gateway.Export{{Name: "demo", Address: b.address}}})
	startGateway(t, gateway.Config{Name: "d", Host: "d", Engine: urls(broker), Exports: []gateway.Export{{Name: "demo", Address: d.address}}})
	a := startGateway(t, gateway.Config{Name: "a", Host: "a", Engine: urls(broker), Listen: here})
	awaitFunction(t, a, "who", 2)
	c := callAt(t, a.listen)
	if counts := answers(t, c, 50); counts["b"] == 0 || counts["d"] == 0 {
		t.Fatalf("both hosts: %v", counts)
	}
	late, began := watchLateness(), time.Now()
	must(t, silent.Process.Signal(syscall.SIGSTOP))
	lost := make(chan error, 16)
	for range 16 {
		go func() { lost <- c.With(client.Timeout(patience)).Call(context.Background(), "who", nil) }()
	}
	await(t, "calls to move", func() bool {
		quick, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		for range 8 {
			if c.Call(quick, "who", nil) != nil {
				return false
			}
		}
		return true
	})
	took, worst := time.Since(began), late.end()
	t.Logf("calls have moved after %v, on a machine that was late by %v", took.Round(time.Millisecond), worst.Round(time.Millisecond))
	if took > outcomeWithin+500*time.Millisecond+4*worst {
		t.Errorf("calls have moved after %v", took)
	}
	unknown := 0
	for range 16 {
		if code, outcome := outcomeOf(<-lost); code != status.OK {
			unknown++
			if code != status.Unavailable || outcome != status.OutcomeUnknown {
				t.Errorf("a call that was with the silent host: %v, %v", code, outcome)
			}
		}
	}
	t.Logf("%d of 16 calls were with the silent host", unknown)
	must(t, silent.Process.Signal(syscall.SIGCONT))
	await(t, "calls at the host that is back", func() bool {
		who, err := client.Call[string](context.Background(), c, "who")
		return err == nil && who == "b"
	})
}

// A gateway that does not read is cut off by its engine. Its calls say what became of them within the
// time in which silence is noticed. It is back by itself when it reads again.
func TestSlowConsumer(t *testing.T) {
	broker := startEngine(t, engine.Options{MaxPayload: 128 << 10, MaxPending: 256 << 10, WriteDeadline: 200 * time.Millisecond})
	b := startBackend(t, "b", "")
	exporter := startChild(t, gateway.Config{Name: "b", Host: "b", Engine: urls(broker), Exports: []gateway.Export{{Name: "demo", Address: b.address}}})
	a := startGateway(t, gateway.Config{Name: "a", Host: "a", Engine: urls(broker), Listen: here})
	awaitFunction(t, a, "who", 1)
	c := callAt(t, a.listen)
	ended := holdThrough(t, c, b)
	must(t, exporter.Process.Signal(syscall.SIGSTOP))
	flood, err := nats.Connect(broker.ClientURL())
	must(t, err)
	t.Cleanup(flood.Close)
	subject, junk := "nearcall.b."+a.Status().Members[0].Instance+".x", make([]byte, 100<<10)
	await(t, "the engine to cut it off", func() bool {
		must(t, flood.Publish(subject, junk))
		return broker.NumSlowConsumers() > 0
	})
	select {
	case err := <-ended:
		if failure := status.FromError(err); failure.Code != status.Unavailable || failure.Outcome != status.OutcomeUnknown {
			t.Errorf("the call in flight: %v", failure)
		}
	case <-time.After(patience):
		t.Error("the call does not end")
	}
	if code, outcome := outcomeOf(c.Call(context.Background(), "who", nil)); code != status.Unavailable || outcome != status.OutcomeNotExecuted {
		t.Errorf("a later call: %v, %v", code, outcome)
	}
	must(t, exporter.Process.Signal(syscall.SIGCONT))
	await(t, "calls to succeed again", func() bool { return c.Call(context.Background(), "who", nil) == nil })
}
