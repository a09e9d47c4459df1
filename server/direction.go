package server

import (
	"slices"
	"strings"
	"time"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/wire"
)

// Elsewhere tells callers where they can call the function directly, so that their calls do not
// travel through this server. It is meant for functions that are passed on (RegisterForwarded).
//
// Where returns an address, such as "unix:/run/shop.sock" or "tls:host:7000", and for how long
// callers should follow it, which is a minute at most. If the address is empty, calls stay with
// this server until then. Afterwards a caller asks again. If the time is 0, the caller follows no
// address and does not ask again.
//
// The address is a hint. Callers follow unix: addresses if they are on this machine, and tls:
// addresses if their program allows it (client.WithDirect). If the server there is gone, full or
// stopping, or refuses the caller, the call comes here after all. So do the calls of libraries
// that know no directions. Whatever keeps callers away from the function has to hold there too.
//
// Where is called when a caller asks for the description of the function, and when a caller calls
// it by name, which callers do at first and when they ask again. It must be quick, because the
// goroutine that reads the connection may call it, and it may be called by any number of
// goroutines. A function with Elsewhere runs apart; see Apart.
func Elsewhere(where func(peer intercept.Peer) (address string, valid time.Duration)) FunctionOption {
	return func(c *functionConfig) { c.elsewhere = where }
}

// directions returns the extension of a reply that says where the caller can call a function
// directly, or nil if there is nothing to say.
func (c *connection) directions(f *function) []byte {
	if f.elsewhere == nil || !c.agreed.directions {
		return nil
	}
	said, ok := c.whereIs(f)
	if !ok {
		return nil
	}
	if len(said.Address) > wire.DirectionBytesMax || strings.IndexByte(said.Address, 0) >= 0 {
		c.server.config.logger.Warn("an address is not told to a caller: it has a NUL byte or is too long", "function", f.name, "address", said.Address, "direction_bytes_max", wire.DirectionBytesMax)
		said.Address = ""
	}
	if !c.peer.Local && strings.HasPrefix(said.Address, "unix:") {
		said.Address = "" // it is on another machine
	}
	if said.Valid > 0 {
		said.Valid = min(max(said.Valid, time.Millisecond), wire.DirectionMsMax*time.Millisecond)
	}
	said.Valid = max(said.Valid, 0)
	return wire.AppendDirection(nil, said)
}

// whereIs asks the program. A panic is the program's mistake, and no reason to end the process or
// to fail a call that can be made here.
func (c *connection) whereIs(f *function) (said wire.Direction, ok bool) {
	defer func() {
		if cause := recover(); cause != nil {
			c.server.config.logger.Error("the function given to Elsewhere panicked", "function", f.name, "panic", panicText(cause))
			ok = false
		}
	}()
	said.Address, said.Valid = f.elsewhere(c.peer)
	return said, true
}

// withDirection returns the extensions of an answer with so many bytes, and the direction beside
// them if the answer has room for it: what a program has to say goes before it.
func (c *connection) withDirection(f *function, extensions []byte, bytes int) []byte {
	direction := c.directions(f)
	all := len(extensions) + len(direction)
	if len(direction) == 0 || all > wire.ExtensionBytesMax-c.origin.reserved || all+bytes > c.agreed.frameBytesMax {
		return extensions
	}
	return append(slices.Clip(extensions), direction...)
}
