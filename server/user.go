package server

import (
	"sync"
	"sync/atomic"
)

// remoteUser stands for all peers whose user the kernel does not tell.
const remoteUser = int64(-1)

// A user holds what all connections of one user id share. Its connections are
// protected by the table's mu.
type user struct {
	id          int64
	connections int
	memoryBytes int64
	calls       atomic.Int64
}

// A userTable counts connections by user. A user without connections is
// forgotten, so the table is never larger than the number of connections.
type userTable struct {
	mu    sync.Mutex
	all   int
	users map[int64]*user
}

func (t *userTable) init() { t.users = make(map[int64]*user) }

// join counts a connection; it returns nil when that would exceed a limit.
func (t *userTable) join(peer Peer, allMax, perUserMax int) *user {
	id := remoteUser
	if peer.Local {
		id = int64(peer.UserID)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.users[id]
	if u == nil {
		u = &user{id: id}
	}
	if t.all >= allMax || u.connections >= perUserMax {
		return nil
	}
	t.all++
	u.connections++
	t.users[id] = u
	return u
}

// leave takes back what join counted.
func (t *userTable) leave(u *user) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	u.connections--
	if u.connections == 0 {
		delete(t.users, u.id)
	}
}

// reserveMemory counts shared memory; it reports false where that would exceed
// the user's share.
func (t *userTable) reserveMemory(u *user, bytes, perUserMax int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u.memoryBytes+bytes > perUserMax {
		return false
	}
	u.memoryBytes += bytes
	return true
}

// giveBackMemory takes back what reserveMemory counted.
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
