package server_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// transferServer moves money and remembers between whom.
type transferServer struct {
	path  string
	calls atomic.Int64
	last  atomic.Value // string
}

func newTransferServer(t testing.TB) *transferServer {
	s, made := newServer(t), &transferServer{}
	register(t, s, "transfer", func(from, to string) {
		made.calls.Add(1)
		made.last.Store(from + " to " + to)
	}, server.Params("from", "to"))
	made.path = start(t, s)
	return made
}

// describe resolves a name.
func (c *caller) describe(name string) (*schema.Function, uint32) {
	c.t.Helper()
	c.lastID++
	frame := wire.Frame{Header: wire.Header{Type: wire.Resolve, CallID: c.lastID}, Payload: []byte(name)}
	c.send(frame.Append(nil))
	reply := c.next()
	if reply.Type != wire.Reply {
		_, _, failure := c.decode(reply)
		c.t.Fatal(failure)
	}
	f, rest, err := schema.ParseFunction(reply.Payload)
	if err != nil || len(rest) > 0 {
		c.t.Fatalf("%v, %d bytes left", err, len(rest))
	}
	return f, reply.FunctionID
}

func connectWithDescriptions(t testing.TB, path string) *caller {
	t.Helper()
	c := dial(t, path)
	greeting := hello()
	greeting.Offered |= wire.FeatureDescriptions
	c.greet(greeting)
	if c.welcome.Accepted&wire.FeatureDescriptions == 0 {
		t.Fatalf("the welcome accepts 0x%x", c.welcome.Accepted)
	}
	c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling, Features: c.welcome.Accepted}
	return c
}

// A request that was encoded by another description does not run, whichever way
// the function is named and whatever else is wrong with the request.
func TestRequestsOfAnotherDescriptionAreNotExecuted(t *testing.T) {
	s := newTransferServer(t)
	c := connectWithDescriptions(t, s.path)
	f, id := c.describe("transfer")
	for _, test := range []struct {
		name   string
		header wire.Header
		ran    bool
	}{
		{"its own", wire.Header{FunctionID: id, Status: f.Check()}, true},
		{"its own, by name", wire.Header{Status: f.Check()}, true},
		{"none", wire.Header{FunctionID: id}, true},
		{"another", wire.Header{FunctionID: id, Status: f.Check() + 1}, false},
		{"another, by name", wire.Header{Status: f.Check() ^ 1<<31}, false},
		{"another, too late", wire.Header{FunctionID: id, Status: 1, Deadline: 1}, false},
		{"another, in another codec", wire.Header{FunctionID: id, Status: 1, Codec: wire.CodecRaw}, false},
	} {
		before := s.calls.Load()
		c.lastID++
		frame := wire.Frame{Header: test.header, Payload: []byte("\x92\xa5alice\xa3bob")}
		frame.Type, frame.CallID = wire.Request, c.lastID
		if test.header.Codec == 0 && test.name != "another, in another codec" {
			frame.Codec = wire.CodecMessagePack
		}
		if frame.FunctionID == 0 {
			frame.Extensions = wire.AppendExtension(nil, wire.ExtensionFunctionName, "transfer")
		}
		c.send(frame.Append(nil))
		_, _, failure := c.result()
		if test.ran {
			if failure != nil || s.last.Load() != "alice to bob" {
				t.Errorf("%s: %v", test.name, failure)
			}
			continue
		}
		wantFailure(t, failure, status.Aborted, status.OutcomeNotExecuted)
		if failure != nil && !strings.Contains(failure.Message, "transfer") {
			t.Errorf("%s: %q does not name the function", test.name, failure.Message)
		}
		if s.calls.Load() != before {
			t.Errorf("%s: the function ran", test.name)
		}
	}
}

func TestUnknownFunctionsComeBeforeTheirDescription(t *testing.T) {
	c := connectWithDescriptions(t, newTransferServer(t).path)
	c.lastID++
	frame := wire.Frame{Header: wire.Header{Type: wire.Request, CallID: c.lastID, FunctionID: 4711, Status: 7}}
	c.send(frame.Append(nil))
	_, _, failure := c.result()
	wantFailure(t, failure, status.Unimplemented, status.OutcomeNotExecuted)
}

// Without the feature the field stays unused, as before there was one.
func TestDescriptionCheckNeedsItsFeature(t *testing.T) {
	c := connect(t, newTransferServer(t).path)
	frame := wire.Frame{Header: wire.Header{Type: wire.Request, CallID: 1, FunctionID: 1, Status: 7}}
	c.send(frame.Append(nil))
	id, _, failure := c.result()
	wantFailure(t, failure, status.InvalidArgument, status.OutcomeNotExecuted)
	if id != 0 {
		t.Errorf("the error is for call %d, want the connection", id)
	}
	c.wantEnd()
}

func TestSimpleRequestsOfAnotherDescriptionAreNotExecuted(t *testing.T) {
	s := newTransferServer(t)
	f, _ := connect(t, s.path).describe("transfer")
	c := dial(t, s.path)
	for _, test := range []struct {
		member string
		code   status.Code
	}{
		{fmt.Sprintf(`"%s"`, f.Hash), status.OK},
		{fmt.Sprintf(`"%s"`, f.Hash[:8]), status.OK},
		{"null", status.OK},
		{fmt.Sprintf(`"%s"`, strings.Repeat("0", 64)), status.Aborted},
		{fmt.Sprintf(`"%s0"`, f.Hash), status.InvalidArgument},
		{fmt.Sprintf(`"%s"`, f.Hash[1:]), status.Aborted},
		{fmt.Sprintf(`"%s"`, f.Hash[:7]), status.InvalidArgument},
		{`""`, status.InvalidArgument},
		{fmt.Sprintf(`"%s"`, strings.ToUpper("abcdefabcdef")), status.InvalidArgument},
	} {
		before := s.calls.Load()
		answer := c.simple(`{"f":"transfer","a":["alice","bob"],"d":` + test.member + `}`)
		ran := s.calls.Load() != before
		switch {
		case ran != (test.code == status.OK), answer.OK != ran:
			t.Errorf("%s: ran %v, %+v", test.member, ran, answer)
		case !answer.OK && (answer.Failure.Code != test.code || answer.Failure.Outcome != "not executed"):
			t.Errorf("%s: %+v, want %v", test.member, answer.Failure, test.code)
		}
	}
}

func TestChanges(t *testing.T) {
	s := newTransferServer(t)
	c := connect(t, s.path)
	f, _ := c.describe("transfer")
	changed := strings.NewReplacer(`"from"`, `"to"`, `"to"`, `"from"`).Replace(string(f.JSON()))
	for _, test := range []struct {
		name, description, hash string
		want                    []any
	}{
		{"transfer", string(f.JSON()), f.Hash, []any{}},
		{"transfer", changed, f.Hash, []any{"parameter 1 (to) of transfer is now parameter 2", "parameter 2 (from) of transfer is now parameter 1"}},
		{"gone", strings.Replace(string(f.JSON()), "transfer", "gone", 1), "", []any{"function gone was removed or renamed"}},
	} {
		value, failure := c.call("nearcall.changes", test.name, test.description)
		want := map[string]any{"hash": test.hash, "changes": test.want}
		if failure != nil || !reflect.DeepEqual(value, want) {
			t.Errorf("%s: %v, %v, want %v", test.description, value, failure, want)
		}
	}
	for _, text := range []string{"", "{", "[]", `{"name":"f"}`, strings.Repeat(`[`, 100_000)} {
		_, failure := c.call("nearcall.changes", "transfer", text)
		wantFailure(t, failure, status.InvalidArgument, status.OutcomeExecuted)
	}
}
