package front

import (
	"net"
	"net/netip"
	"sync"
)

// A guard counts the connections that the front holds, in all and for each
// client.
type guard struct {
	mutex        sync.Mutex
	held         int
	heldMax      int
	perClient    map[netip.Addr]int
	perClientMax int
	// empty is closed when nothing is held any more; nil while nobody waits.
	empty chan struct{}
}

func (g *guard) limit(heldMax, perClientMax int) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.heldMax, g.perClientMax = heldMax, perClientMax
	if g.perClient == nil {
		g.perClient = map[netip.Addr]int{}
	}
}

// admit counts a connection unless there are as many as there may be.
func (g *guard) admit(client netip.Addr) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.held >= g.heldMax || g.perClient[client] >= g.perClientMax {
		return false
	}
	g.held++
	g.perClient[client]++
	return true
}

// move counts an admitted connection for another client; it does not refuse.
func (g *guard) move(from, to netip.Addr) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.perClient[from]--; g.perClient[from] == 0 {
		delete(g.perClient, from)
	}
	g.perClient[to]++
}

// crowded tells whether a client has more than it may.
func (g *guard) crowded(client netip.Addr) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.perClient[client] > g.perClientMax
}

// release is called when an admitted connection is held no longer.
func (g *guard) release(client netip.Addr) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.held--
	if g.perClient[client]--; g.perClient[client] == 0 {
		delete(g.perClient, client)
	}
	if g.held == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

func (g *guard) count() int {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.held
}

// idle returns a channel that is closed as soon as nothing is held.
func (g *guard) idle() <-chan struct{} {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	if g.held == 0 {
		close(empty)
		g.empty = nil
	}
	return empty
}

// clientOf is what connections are counted by: an address, of IPv6 the network
// that a single client has. Local clients count as one.
func clientOf(remote net.Addr) netip.Addr {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	address := tcp.AddrPort().Addr().Unmap()
	if address.Is4() {
		return address
	}
	const networkBits = 64
	network, err := address.WithZone("").Prefix(networkBits)
	if err != nil {
		return address
	}
	return network.Addr()
}
