package server

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// An account says for whom connections count: the user id of a local peer, the first name in
// a peer's certificate, or the address from which another peer comes. All loopback addresses belong to this machine,
// any user of which may use any of them, so they are one account. Peers about which
// nothing is known are one account, too.
type account struct {
	local    bool
	loopback bool
	userID   uint32
	identity string
	network  netip.Prefix
}

// Whoever has one IPv6 address usually has all addresses of its network, which differ
// in the last 64 bits.
const networkBitsIPv6 = 64

func accountOf(peer *Peer) account {
	if peer.Local {
		return account{local: true, userID: peer.UserID}
	}
	if peer.Identity != "" {
		return account{identity: peer.Identity}
	}
	from, err := netip.ParseAddrPort(peer.Address)
	if err != nil {
		return account{}
	}
	address := from.Addr().Unmap().WithZone("")
	if address.IsLoopback() {
		return account{loopback: true}
	}
	bits := address.BitLen()
	if address.Is6() {
		bits = networkBitsIPv6
	}
	// Neither number of bits is more than the address has.
	network, _ := address.Prefix(bits)
	return account{network: network}
}

// String returns a text for the account that can be the subject of a sentence.
func (a account) String() string {
	switch {
	case a.local:
		return fmt.Sprintf("user %d", a.userID)
	case a.identity != "":
		return a.identity
	case a.loopback:
		return "this machine, over its loopback addresses,"
	case a.network.IsSingleIP():
		return "address " + a.network.Addr().String()
	case a.network.IsValid():
		return "network " + a.network.String()
	}
	return "the peers without an address"
}

// isOperator reports whether it is root or the user of this process. Others must not be
// able to shut these out.
func (a account) isOperator() bool {
	return a.local && (a.userID == 0 || a.userID == uint32(os.Geteuid()))
}

// A user holds what all connections of one account share. The table's mu protects its
// connections and its memory.
type user struct {
	account     account
	connections int
	outliving   int // stores that are being given up, whether or not their connections have ended
	memoryBytes int64
	calls       atomic.Int64
	input       share
	output      share
	descriptors pace
	forgetting  bool // forgetLocked will be called once more
}

// nobody is the user of connections that are not admitted.
func nobody() *user { return new(user) }

// A userTable counts connections for each user. A user without connections is
// forgotten, so the table is never larger than the number of connections.
type userTable struct {
	input  budget
	output budget

	// mu protects what follows.
	mu                    sync.Mutex
	connectionsMax        int
	connectionsPerUserMax int
	fitted                bool // to the descriptors of the process: the options allow more
	all                   int
	users                 map[account]*user
}

func (t *userTable) init(c *config) {
	t.connectionsMax, t.connectionsPerUserMax = c.connectionsMax, c.connectionsPerUserMax
	in, out := &t.input, &t.output
	in.kind, in.option, in.what = "input", "WithInputBytes", "requests that have come and not run"
	in.max, in.perUserMax = c.inputBytesMax, c.inputBytesPerUserMax
	in.ceiling, in.perUserCeiling = wire.InputBytesMaxCeiling, wire.InputBytesPerUserMaxCeiling
	out.kind, out.option, out.what = "output", "WithOutputBytes", "replies that wait to be read"
	out.max, out.perUserMax = c.outputBytesMax, c.outputBytesPerUserMax
	out.ceiling, out.perUserCeiling = wire.OutputBytesMaxCeiling, wire.OutputBytesPerUserMaxCeiling
	t.users = make(map[account]*user)
}

// operatorsPart is the part of the connections that is kept for operators.
const operatorsPart = 8

// join counts a connection, or returns an error if that would exceed a limit.
func (t *userTable) join(peer *Peer) (*user, error) {
	of := accountOf(peer)
	t.mu.Lock()
	defer t.mu.Unlock()
	allMax := t.connectionsMax
	if !of.isOperator() {
		allMax -= t.connectionsMax / operatorsPart
	}
	u := t.users[of]
	if u == nil {
		u = &user{account: of}
		u.input.budget, u.input.exempt = &t.input, of.isOperator()
		u.output.budget, u.output.exempt = &t.output, of.isOperator()
		u.descriptors.exempt = of.isOperator()
	}
	if u.connections >= t.connectionsPerUserMax {
		return nil, refusedf(status.ResourceExhausted, "%s has %d connections (limit connections_per_user_max); %s", of, u.connections, t.remedyLocked(wire.ConnectionsPerUserMaxCeiling))
	}
	if t.all >= allMax {
		return nil, refusedf(status.ResourceExhausted, "there are %d connections (limit connections_max, an eighth of which is kept for root and the server's own user); %s", t.all, t.remedyLocked(wire.ConnectionsMaxCeiling))
	}
	t.all++
	u.connections++
	t.users[of] = u
	return u, nil
}

// remedyLocked says what raises a limit of connections.
func (t *userTable) remedyLocked(ceiling int) string {
	if t.fitted {
		return "the server's process may have too few descriptors for more (RLIMIT_NOFILE, ulimit -n)"
	}
	return fmt.Sprintf("the server's option WithConnections raises it to at most %d", ceiling)
}

// leave uncounts a connection that join has counted. It does nothing for a peer that
// was not admitted.
func (t *userTable) leave(u *user) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u.connections == 0 {
		return
	}
	t.all--
	u.connections--
	t.forgetLocked(u)
}

// forgetLocked forgets a user of whom nothing is left. Descriptors that came with connections
// which have ended count until their time is over.
func (t *userTable) forgetLocked(u *user) {
	if u.connections > 0 || u.outliving > 0 || t.users[u.account] != u {
		return
	}
	left := time.Until(u.descriptors.freeAt())
	if left <= 0 {
		delete(t.users, u.account)
		return
	}
	if !u.forgetting {
		u.forgetting = true
		time.AfterFunc(left, func() { t.forgetLater(u) })
	}
}

func (t *userTable) forgetLater(u *user) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.forgetting = false
	t.forgetLocked(u)
}

// outlive keeps a user while there are stores that are being given up, which may outlive their
// connections.
func (t *userTable) outlive(u *user, stores int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.outliving += stores
	t.forgetLocked(u)
}

// reserveMemory counts shared memory. It reports false if that would exceed the user's
// share, or if the user holds more than heldMax already.
func (t *userTable) reserveMemory(u *user, bytes, perUserMax, heldMax int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u.memoryBytes > heldMax || u.memoryBytes+bytes > perUserMax {
		return false
	}
	u.memoryBytes += bytes
	return true
}

// giveBackMemory uncounts what reserveMemory has counted.
func (t *userTable) giveBackMemory(u *user, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.memoryBytes -= bytes
}

// count returns the number of open connections.
func (t *userTable) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all
}
