//go:build !race

package eventloop_test

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestCallsDoNotAllocate: being parked and resumed for each call costs no memory.
func TestCallsDoNotAllocate(t *testing.T) {
	r := serve(t, newServer(t), unixAddress(t))
	defer r.end()
	c := connectIdle(t, r.address.String())
	defer unix.Close(int(c))
	c.say(t, hello(), make([]byte, 1024))
	request, reply := (&caller{TB: t}).request("echo", make([]byte, 64)), make([]byte, 1024)
	id := uint64(0)
	call := func() {
		id++
		c.call(t, request, id, reply)
	}
	if allocations := testing.AllocsPerRun(5000, call); allocations > 0 {
		t.Errorf("%v allocations per call, want 0", allocations)
	}
}
