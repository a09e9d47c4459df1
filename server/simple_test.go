package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/status"
)

// TestSimpleMembersAreNamedExactly: what another server would not understand is not
// understood here, and what can be understood in two ways is refused.
func TestSimpleMembersAreNamedExactly(t *testing.T) {
	s := newServer(t)
	register(t, s, "add", func(a, b int64) int64 { return a + b })
	path := start(t, s)
	for _, request := range []string{
		`{"F":"add","a":[1,2]}`,
		`{"f":"add","a":[1,2],"a":[3,4]}`,
		`{"f":"add","f":"add","a":[1,2]}`,
		`{"f":"add","a":[1,2],"t":1,"t":null}`,
		`{"f":"add","a":[1,2]} {}`,
	} {
		answer := dial(t, path).simple(request)
		if answer.OK || answer.Failure.Code != status.InvalidArgument || answer.Failure.Outcome != "not executed" {
			t.Errorf("%s: %+v", request, answer)
		}
	}
	for _, request := range []string{`{"f":"add","a":[1,2],"A":[3,4],"T":0,"D":"x","t":null}`, ` { "f" : "add" , "a":[1,2], "other": {"f":1} } `} {
		if answer := dial(t, path).simple(request); !answer.OK {
			t.Errorf("%s: %+v", request, answer)
		}
	}
	answer := dial(t, path).simple(`{"f":"add","A":[1,2]}`)
	if answer.OK || !strings.Contains(answer.Failure.Message, "2") {
		t.Errorf("arguments under another name: %+v", answer)
	}
}

// TestSimpleHangUpIsNoticed: behind any number of requests that wait.
func TestSimpleHangUpIsNoticed(t *testing.T) {
	for _, waiting := range []int{0, 1, 2, 3, 20} {
		s, g := newServer(t), newGate()
		ended := make(chan error, 1)
		register(t, s, "wait", func(ctx context.Context) { g.started <- struct{}{}; <-ctx.Done(); ended <- ctx.Err() })
		register(t, s, "one", func() int64 { g.ended.Add(1); return 1 })
		c := dial(t, start(t, s))
		c.send(simpleRequest(`{"f":"wait"}`))
		<-g.started
		for range waiting {
			c.send(simpleRequest(`{"f":"one"}`))
		}
		c.conn.Close()
		waitFor(t, "the running call to be told", func() bool { return len(ended) > 0 })
		waitFor(t, "the connection to be forgotten", func() bool { return s.Statistics().Connections == 0 })
		if ran := g.ended.Load(); ran > 0 {
			t.Errorf("%d of %d requests ran after their caller had hung up", ran, waiting)
		}
	}
}
