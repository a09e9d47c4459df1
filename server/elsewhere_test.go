package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
)

// connectForDirections connects as a caller that follows directions.
func connectForDirections(t testing.TB, path string) *caller {
	t.Helper()
	c := dial(t, path)
	asking := hello()
	asking.Offered |= wire.FeatureDirections
	c.greet(asking)
	c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling, Features: c.welcome.Accepted}
	return c
}

// resolve asks for the description of a function, and returns the answer.
func (c *caller) resolve(name string) wire.Frame {
	c.t.Helper()
	c.lastID++
	frame := wire.Frame{Header: wire.Header{Type: wire.Resolve, CallID: c.lastID}, Payload: []byte(name)}
	c.send(frame.Append(nil))
	return c.next()
}

// byName calls a function by its name, and returns the answer.
func (c *caller) byName(name string) wire.Frame {
	c.t.Helper()
	c.begin(name, 0)
	return c.next()
}

// wantDirection checks what an answer says of another place for the function.
func wantDirection(t testing.TB, answer wire.Frame, want wire.Direction, told bool) {
	t.Helper()
	if got, found := wire.FindDirection(answer.Extensions); answer.Type != wire.Reply || got != want || found != told {
		t.Errorf("%v with direction %+v (%v), want %+v (%v)", answer.Type, got, found, want, told)
	}
}

// serveElsewhere serves a function that says of another place what where returns.
func serveElsewhere(t testing.TB, where func(server.Peer) (string, time.Duration)) (path string) {
	t.Helper()
	s := newServer(t)
	register(t, s, "here", func() int64 { return 1 })
	register(t, s, "moved", func() int64 { return 2 }, server.Elsewhere(where))
	return start(t, s)
}

func TestDirectionsAreTold(t *testing.T) {
	const longest = wire.DirectionMsMax * time.Millisecond
	for what, said := range map[string]struct{ program, told wire.Direction }{
		"an address":          {wire.Direction{Address: "unix:/run/shop.sock", Valid: 5 * time.Second}, wire.Direction{Address: "unix:/run/shop.sock", Valid: 5 * time.Second}},
		"for too long":        {wire.Direction{Address: "tls:b:7000", Valid: time.Hour}, wire.Direction{Address: "tls:b:7000", Valid: longest}},
		"for a moment":        {wire.Direction{Address: "tls:b:7000", Valid: 1}, wire.Direction{Address: "tls:b:7000", Valid: time.Millisecond}},
		"none for now":        {wire.Direction{Valid: time.Second}, wire.Direction{Valid: time.Second}},
		"none":                {},
		"for a negative time": {wire.Direction{Valid: -time.Second}, wire.Direction{}},
		"too long a text":     {wire.Direction{Address: "unix:/" + strings.Repeat("d", wire.DirectionBytesMax), Valid: time.Second}, wire.Direction{Valid: time.Second}},
		"with a NUL":          {wire.Direction{Address: "unix:/a\x00b", Valid: time.Second}, wire.Direction{Valid: time.Second}},
	} {
		t.Run(what, func(t *testing.T) {
			c := connectForDirections(t, serveElsewhere(t, func(peer server.Peer) (string, time.Duration) {
				if !peer.Local {
					t.Errorf("the caller is %+v", peer)
				}
				return said.program.Address, said.program.Valid
			}))
			wantDirection(t, c.resolve("moved"), said.told, true)
			answer := c.byName("moved")
			wantDirection(t, answer, said.told, true)
			// A call by id asks for nothing.
			c.lastID++
			byID := wire.Frame{Header: wire.Header{Type: wire.Request, Codec: wire.CodecMessagePack, CallID: c.lastID, FunctionID: answer.FunctionID}, Payload: []byte{0x90}}
			c.send(byID.Append(nil))
			wantDirection(t, c.next(), wire.Direction{}, false)
			wantDirection(t, c.byName("here"), wire.Direction{}, false)
		})
	}
}

func TestDirectionsAreToldToThoseWhoAsk(t *testing.T) {
	path := serveElsewhere(t, func(server.Peer) (string, time.Duration) {
		t.Error("the program was asked for a direction that nobody can be told")
		return "unix:/run/shop.sock", time.Second
	})
	c := connect(t, path)
	wantDirection(t, c.resolve("moved"), wire.Direction{}, false)
	wantDirection(t, c.byName("moved"), wire.Direction{}, false)
}

func TestDirectionOfAPanic(t *testing.T) {
	c := connectForDirections(t, serveElsewhere(t, func(server.Peer) (string, time.Duration) { panic("on purpose") }))
	wantDirection(t, c.resolve("moved"), wire.Direction{}, false)
	wantDirection(t, c.byName("moved"), wire.Direction{}, false)
}

// What the program has to say goes before a direction, and no result is refused because of one.
func TestDirectionWithoutRoom(t *testing.T) {
	there := server.Elsewhere(func(server.Peer) (string, time.Duration) { return "unix:/run/shop.sock", time.Second })
	s := newServer(t)
	register(t, s, "talks", func(ctx context.Context) (int64, error) {
		call, _ := server.CallFromContext(ctx)
		return 1, call.AddReplyMetadata("text", strings.Repeat("t", 4070))
	}, there)
	largest := wire.FrameBytesFloor - 5 // and a head of five bytes
	register(t, s, "large", func() []byte { return make([]byte, largest) }, there)
	path := start(t, s)
	c := dial(t, path)
	asking := hello()
	asking.Offered, asking.FrameBytesMax = asking.Offered|wire.FeatureDirections, wire.FrameBytesFloor
	c.greet(asking)
	c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesFloor, Features: c.welcome.Accepted}
	wantDirection(t, c.byName("talks"), wire.Direction{}, false)
	wantDirection(t, c.resolve("talks"), wire.Direction{Address: "unix:/run/shop.sock", Valid: time.Second}, true)
	wantDirection(t, c.byName("large"), wire.Direction{}, false)
}
