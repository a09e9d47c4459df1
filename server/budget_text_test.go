package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// TestArgumentsOfJSONAreBounded: what is made of JSON counts as well.
func TestArgumentsOfJSONAreBounded(t *testing.T) {
	const room, many, few = 4 << 20, 100_000, 1_000
	s := newServer(t, server.WithInputBytes(1<<30, room))
	register(t, s, "any", func(value any) int { return len(value.([]any)) })
	register(t, s, "floats", func(list []float64) int { return len(list) })
	path := start(t, s)
	listOf := func(n int, element string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	c := connect(t, path)
	for _, test := range []struct {
		name, element string
		many          int
	}{{"any", "{}", many}, {"floats", "1", 350_000}} {
		for count, code := range map[int]status.Code{test.many: status.ResourceExhausted, few: status.OK} {
			simple := dial(t, path)
			answer := simple.simple(fmt.Sprintf(`{"f":%q,"a":[%s]}`, test.name, listOf(count, test.element)))
			if answer.OK != (code == status.OK) || !answer.OK && (answer.Failure.Code != code || answer.Failure.Outcome != "not executed") {
				t.Errorf("%s of %d: %+v, want %v", test.name, count, answer, code)
			}
			simple.conn.Close()
		}
	}
	wantNothingHeld(t, s, []*caller{c})
}

// TestDescriptionsAreBounded: a description becomes a tree, which takes dozens of times its
// bytes.
func TestDescriptionsAreBounded(t *testing.T) {
	const room = 1 << 20
	s := newServer(t, server.WithInputBytes(1<<30, room))
	path := start(t, s)
	c := connect(t, path)
	for bytes, code := range map[int]status.Code{
		room / 256:                 status.InvalidArgument, // from the function, as the text is no description
		room / 16:                  status.ResourceExhausted,
		wire.ChangesBytesMax + 100: status.InvalidArgument,
	} {
		outcome := status.OutcomeNotExecuted
		if bytes == room/256 {
			outcome = status.OutcomeExecuted
		}
		_, failure := c.call("nearcall.changes", "f", strings.Repeat("[", bytes))
		wantFailure(t, failure, code, outcome)
	}
	wantNothingHeld(t, s, []*caller{c})
}
