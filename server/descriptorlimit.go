package server

import "syscall"

// Of the descriptors that the process may have, so many are not for connections: a part, and
// what a server needs at the least, for listeners, shared memory that is being made, connections
// that are turned away and what the program itself has open, which nobody knows.
const (
	descriptorsKeptPart  = 8
	descriptorsKeptLeast = 32
	smallLimitPart       = 4 // at most, of a limit that is so small that descriptorsKeptLeast is much
)

// fitToDescriptors lowers the limits of connections if the process may not have enough
// descriptors for them: whoever takes the last one shuts out everybody, root included.
func (s *Server) fitToDescriptors() {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		s.config.logger.Warn("the limit of descriptors is not known", "error", err)
		return
	}
	if all, perUser, lowered := s.users.fit(uint64(limit.Cur)); lowered {
		s.config.logger.Warn("there can be fewer connections than WithConnections says, because the process may have too few descriptors: raise that limit, as by LimitNOFILE= of systemd or ulimit -n, or lower WithConnections",
			"descriptors", limit.Cur, "connections_max", all, "connections_per_user_max", perUser)
	}
}

// fit lowers the limits to what goes with a number of descriptors. A user then has at most
// three quarters of the connections, as by default.
func (t *userTable) fit(descriptors uint64) (all, perUser int, lowered bool) {
	room := max(1, descriptors-descriptors/descriptorsKeptPart-min(descriptors/smallLimitPart, descriptorsKeptLeast))
	t.mu.Lock()
	defer t.mu.Unlock()
	if room < uint64(t.connectionsMax) {
		lowered, t.fitted = true, true
		t.connectionsMax = int(room)
		t.connectionsPerUserMax = min(t.connectionsPerUserMax, max(1, t.connectionsMax*3/4))
	}
	return t.connectionsMax, t.connectionsPerUserMax, lowered
}
