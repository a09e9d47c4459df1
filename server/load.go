package server

import (
	"runtime"
	"sync/atomic"
	"time"
)

// loadLook is how old a load may be that a welcome tells. Looking costs a look at each user, so a
// burst of connections shares one.
const loadLook = 100 * time.Millisecond

// A loadGauge keeps how busy the server was when somebody last looked.
type loadGauge struct {
	dueNs    atomic.Uint64 // when to look again
	measured atomic.Uint32
}

// load says how busy the server is: the calls that run or wait for each processor, in thousandths.
// Calls that readers run themselves are over before anybody could count them.
func (s *Server) load() uint32 {
	now, due := s.clock.Ns(), s.gauge.dueNs.Load()
	if now >= due && s.gauge.dueNs.CompareAndSwap(due, now+uint64(loadLook)) {
		s.gauge.measured.Store(uint32(1000 * s.users.callsInFlight() / int64(runtime.GOMAXPROCS(0))))
	}
	return s.gauge.measured.Load()
}

// callsInFlight returns the calls of all users that count as in flight.
func (t *userTable) callsInFlight() (calls int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.users {
		calls += u.calls.Load()
	}
	return calls
}
