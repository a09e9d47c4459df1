package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// TestInterceptorsAndOutcomes: whether the function ran is what happened, not
// what an interceptor's error says.
func TestInterceptorsAndOutcomes(t *testing.T) {
	foreign := status.Errorf(status.NotFound, "of a call elsewhere").With(status.OutcomeExecuted)
	around := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		switch call.Function() {
		case "refused":
			return errors.New("refused")
		case "refused_by_another":
			return foreign
		case "panic_before":
			panic("before")
		case "forgotten":
			return nil
		case "swallowed":
			next(ctx)
			return nil
		case "replaced":
			next(ctx)
			return errors.New("replaced")
		case "twice":
			return errors.Join(next(ctx), next(ctx))
		}
		return next(ctx)
	}
	runs := map[string]*atomic.Int64{}
	s := newServer(t, server.WithInterceptor(around))
	for _, name := range []string{"refused", "refused_by_another", "panic_before", "forgotten", "swallowed", "replaced", "twice"} {
		runs[name] = new(atomic.Int64)
		register(t, s, name, func(n int64) (int64, error) {
			runs[name].Add(1)
			if name == "swallowed" {
				return 0, status.Errorf(status.Aborted, "failed")
			}
			return n, nil
		})
	}
	c := connect(t, start(t, s))
	for _, want := range []struct {
		name     string
		argument any
		code     status.Code
		outcome  status.Outcome
		runs     int64
	}{
		{"refused", 1, status.Unknown, status.OutcomeNotExecuted, 0},
		{"refused_by_another", 1, status.NotFound, status.OutcomeNotExecuted, 0},
		{"panic_before", 1, status.Internal, status.OutcomeNotExecuted, 0},
		{"forgotten", 1, status.Internal, status.OutcomeNotExecuted, 0},
		{"swallowed", 1, status.Aborted, status.OutcomeExecuted, 1},
		{"replaced", 1, status.Unknown, status.OutcomeExecuted, 1},
		{"replaced", "not a number", status.Unknown, status.OutcomeNotExecuted, 1},
		{"twice", 1, status.Internal, status.OutcomeExecuted, 1},
	} {
		t.Run(want.name, func(t *testing.T) {
			_, failure := c.call(want.name, want.argument)
			wantFailure(t, failure, want.code, want.outcome)
			if ran := runs[want.name].Load(); ran != want.runs {
				t.Errorf("%d runs, want %d", ran, want.runs)
			}
		})
	}
}

// TestErrorsFitTheCaller: an error that the caller would not accept costs its
// details, not the connection.
func TestErrorsFitTheCaller(t *testing.T) {
	s := newServer(t)
	register(t, s, "verbose", func() error {
		return &status.Error{Code: status.Aborted, Message: "told", Details: []status.Detail{{Type: "long", Value: strings.Repeat("x", wire.FrameBytesFloor)}}}
	})
	c := dial(t, start(t, s))
	small := hello()
	small.FrameBytesMax = wire.FrameBytesFloor
	c.greet(small)
	c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesFloor, Features: c.welcome.Accepted}
	_, failure := c.call("verbose")
	wantFailure(t, failure, status.Aborted, status.OutcomeExecuted)
}

// TestForeignCodesDoNotTravel: numbers that are not in the list, among them
// those that mean something to libraries alone, become UNKNOWN.
func TestForeignCodesDoNotTravel(t *testing.T) {
	s := newServer(t)
	register(t, s, "fail", func(code int64) error { return status.Errorf(status.Code(code), "no") })
	c := connect(t, start(t, s))
	for _, code := range []int64{0, 17, 100, 101, 102, 255} {
		_, failure := c.call("fail", code)
		wantFailure(t, failure, status.Unknown, status.OutcomeExecuted)
	}
}

func TestCancelOfAStubbornFunction(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "stubborn", g.wait, server.MaxRunTime(time.Minute))
	c := connect(t, start(t, s))
	id := c.begin("stubborn", 0)
	<-g.started
	c.cancel(id)
	_, _, failure := c.result()
	wantFailure(t, failure, status.Cancelled, status.OutcomeUnknown)
	close(g.release)
}

// TestMaxRunTimeBeginsWithTheRun: waiting for a place is not running.
func TestMaxRunTimeBeginsWithTheRun(t *testing.T) {
	const limit = 2 * time.Second
	s := newServer(t)
	register(t, s, "work", func(ctx context.Context) error {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) < limit/2 {
			return errors.New("the deadline is too near")
		}
		time.Sleep(limit / 4)
		return nil
	}, server.MaxConcurrency(1), server.MaxRunTime(limit))
	c := connect(t, start(t, s))
	const calls = 5
	for range calls {
		c.begin("work", 0)
	}
	for range calls {
		if id, _, failure := c.result(); failure != nil {
			t.Errorf("call %d: %v", id, failure)
		}
	}
}

func simpleRequest(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

type simpleAnswer struct {
	OK      bool            `json:"ok"`
	Result  json.RawMessage `json:"r"`
	Failure struct {
		Code    status.Code          `json:"code"`
		Message string               `json:"message"`
		Outcome string               `json:"outcome"`
		Details [][2]json.RawMessage `json:"details"`
	} `json:"e"`
	bytes int
}

func (c *caller) simple(request string) (answer simpleAnswer) {
	c.t.Helper()
	return c.simpleOn(c.conn, request)
}

func (c *caller) simpleOn(conn net.Conn, request string) (answer simpleAnswer) {
	c.t.Helper()
	if _, err := conn.Write(simpleRequest(request)); err != nil {
		c.t.Fatal(err)
	}
	return c.simpleAnswer(conn)
}

// simpleAnswer reads an answer.
func (c *caller) simpleAnswer(conn net.Conn) (answer simpleAnswer) {
	c.t.Helper()
	var header [4]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		c.t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(header[:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		c.t.Fatal(err)
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&answer); err != nil {
		c.t.Fatal(err)
	}
	answer.bytes = len(body)
	return answer
}

// TestSimpleCallsEndInTime: the server keeps the deadline for callers of the
// simple protocol, whatever the function does.
func TestSimpleCallsEndInTime(t *testing.T) {
	s, g := newServer(t, server.WithCallsInFlight(2, 2)), newGate()
	register(t, s, "stubborn", g.wait)
	register(t, s, "limited", g.wait, server.MaxRunTime(20*time.Millisecond))
	c := dial(t, start(t, s))
	for _, request := range []string{`{"f":"stubborn","t":20}`, `{"f":"limited"}`} {
		if answer := c.simple(request); answer.OK || answer.Failure.Code != status.DeadlineExceeded || answer.Failure.Outcome != "unknown" {
			t.Errorf("%s: %+v", request, answer)
		}
	}
	// Functions that go on count until they return.
	if answer := c.simple(`{"f":"stubborn"}`); answer.Failure.Code != status.ResourceExhausted || answer.Failure.Outcome != "not executed" {
		t.Errorf("a third call: %+v", answer)
	}
	close(g.release)
	waitFor(t, "the places to be given back", func() bool { return c.simple(`{"f":"stubborn"}`).OK })
}

func TestSimpleAnswersKeepLimits(t *testing.T) {
	s := newServer(t, server.WithFrameBytesMax(wire.FrameBytesFloor))
	register(t, s, "fail", func(n int64) error { return errors.New(strings.Repeat("x", int(n))) })
	register(t, s, "fill", func(n int64) string { return strings.Repeat("x", int(n)) })
	c := dial(t, start(t, s))
	if answer := c.simple(`{"f":"fail","a":[100000]}`); len(answer.Failure.Message) != wire.ErrorMessageBytesMax {
		t.Errorf("a message of %d bytes, want %d", len(answer.Failure.Message), wire.ErrorMessageBytesMax)
	}
	if answer := c.simple(`{"f":"fill","a":[65530]}`); answer.bytes > wire.FrameBytesFloor || answer.Failure.Code != status.ResourceExhausted {
		t.Errorf("an answer of %d bytes: %v", answer.bytes, answer.Failure)
	}
	if answer := c.simple(`{"f":"` + strings.Repeat("é", 30_000) + `"}`); answer.bytes > wire.ErrorMessageBytesMax {
		t.Errorf("an answer of %d bytes to a long name", answer.bytes)
	}
}
