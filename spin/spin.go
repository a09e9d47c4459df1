// Package spin says how a side of a connection waits for frames in shared memory: a client
// for replies, a server for the next call. Options of both take a Mode, and the parameter
// spin of an address has the same values. The guide docs/guides/shared-memory.md explains
// what they cost.
package spin

import "fmt"

// A Mode is a way to wait.
type Mode uint8

const (
	// Auto spins when that makes calls faster.
	Auto Mode = iota
	// Off sleeps at once. It uses the least CPU, and adds the time of a sleep and a wake to a call.
	Off
	// Dedicated never sleeps: on a client while a call waits, on a server while a
	// connection is open. Each of them takes up a CPU.
	Dedicated
)

// String returns the mode as the parameter of an address writes it.
func (m Mode) String() string {
	if m > Dedicated {
		return fmt.Sprintf("spin.Mode(%d)", uint8(m))
	}
	return [...]string{"auto", "off", "dedicated"}[m]
}
