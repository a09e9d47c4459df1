// Package endpoints decides which of several endpoints of an address a call goes to. It is
// told what became of calls and of connections, and it is asked for the next endpoint. It
// has no clock, makes no connections and starts no goroutines, so that clients, gateways
// and simulations decide by the same code.
//
// Endpoints stand in groups. A call goes to the nearest group that has an endpoint which is
// not left alone. Within the group two endpoints are drawn, and the one with fewer calls of
// this caller takes the call. If both have as many, what they said of their load gives the less
// busy one the better chance. An endpoint that fails rests: it is left alone for a while,
// which grows with each failure. If all endpoints rest, a call tries the one whose rest ends
// first, because a call must not fail only because everything rests.
package endpoints

// Max is how many endpoints a Set holds.
const Max = 64

// Bits is a set of endpoints, by their index.
type Bits uint64

// With returns the set with one endpoint more.
func (b Bits) With(index int) Bits { return b | 1<<index }

// Has reports whether an endpoint is in the set.
func (b Bits) Has(index int) bool { return b&(1<<index) != 0 }

// A Random draws numbers from 0 to n-1.
type Random interface{ IntN(n int) int }

// Limits are for how long endpoints are left alone, in nanoseconds.
type Limits struct {
	// RestFirst is the mean of the first rest after a failure. Each further failure doubles
	// it, up to Rest. A rest is drawn from half to one and a half times its mean, so that
	// callers that failed together do not come back together.
	RestFirst, Rest uint64
	// Full is how long an endpoint is left alone that had no room for a call.
	Full uint64
	// Return bounds the rest of an endpoint if there are equals or farther ones: calls go to those
	// meanwhile, and should come back soon.
	Return uint64
	// Load is for how long counts what an endpoint has said of its load.
	Load uint64
}

// A State says what is known of an endpoint.
type State uint8

const (
	// Ready is the state of an endpoint that has not failed lately.
	Ready State = iota
	// Failed means that connecting failed, or that a connection was lost.
	Failed
	// Silent is Failed, because nothing has come from the endpoint for too long. Whether it is
	// back is found out beside calls, because that may take long again.
	Silent
	// Full means that the endpoint had no room for a call.
	Full
)

// A Set holds the endpoints of one address. Its owner guards it with a lock.
type Set struct {
	limits  Limits
	members [Max]member
	// above is one more than the highest index that is in use.
	above int
}

type member struct {
	present, beside bool
	group           int
	state           State
	failures        int
	// rests until untilNs. lengthNs is how long the last rest was.
	untilNs, lengthNs uint64
	calls             int
	// load is what was said last, and counts until loadUntilNs.
	load        uint32
	loadUntilNs uint64
}

// New returns a set without endpoints.
func New(limits Limits) *Set { return &Set{limits: limits} }

// Add adds an endpoint to a group; smaller numbers are nearer. It returns its index, or -1 if
// the set is full. Beside says that a call must not find out whether the endpoint is back
// after a rest, because that may take long. Such an endpoint is returned by Probe instead.
func (s *Set) Add(group int, beside bool) int {
	for i := range s.members {
		// Calls of an endpoint that was removed are still counted until they end.
		if m := &s.members[i]; !m.present && m.calls == 0 {
			*m = member{present: true, beside: beside, group: group}
			s.above = max(s.above, i+1)
			return i
		}
	}
	return -1
}

// Remove takes an endpoint out of the set. Its index is used again once its calls have ended.
func (s *Set) Remove(index int) { s.members[index] = member{calls: s.members[index].calls} }

// Group returns the group of an endpoint.
func (s *Set) Group(index int) int { return s.members[index].group }

// Alone reports whether an endpoint is the only one of its group, and no group is nearer, so
// that there is nothing to compare as long as it does not fail.
func (s *Set) Alone(index int) bool {
	for i := range s.above {
		if m := &s.members[i]; m.present && i != index && m.group <= s.members[index].group {
			return false
		}
	}
	return true
}

// Others reports whether the set has an endpoint that is not among those.
func (s *Set) Others(those Bits) bool {
	for i := range s.above {
		if s.members[i].present && !those.Has(i) {
			return true
		}
	}
	return false
}

// Nearest returns the nearest endpoint among those, whether it rests or not.
func (s *Set) Nearest(those Bits) (index int, found bool) {
	for i := range s.above {
		m := &s.members[i]
		if m.present && those.Has(i) && (!found || m.group < s.members[index].group) {
			index, found = i, true
		}
	}
	return index, found
}

// Pick returns the endpoint for a call that does not want those in not. Rests means that it
// is still to be left alone, and was only returned because the same is true of all others.
func (s *Set) Pick(nowNs uint64, random Random, not Bits) (index int, rests, found bool) {
	group, count := s.nearestUsable(nowNs, not)
	if count == 0 {
		index, found = s.firstToReturn(not)
		return index, found, found
	}
	first := random.IntN(count)
	index = s.usable(nowNs, not, group, first)
	if count > 1 {
		second := random.IntN(count - 1)
		if second >= first {
			second++
		}
		if other := s.usable(nowNs, not, group, second); s.prefers(other, index, nowNs, random) {
			index = other
		}
	}
	s.members[index].lease(nowNs)
	return index, false, true
}

// Take reports whether a call may go to an endpoint that somebody else has chosen, as Pick would choose
// it: after a rest, one call may.
func (s *Set) Take(index int, nowNs uint64) bool {
	m := &s.members[index]
	if !m.usable(nowNs) {
		return false
	}
	m.lease(nowNs)
	return true
}

// prefers reports whether a call goes to an endpoint instead of to another one. Loads give chances and
// do not decide: all callers hear the same, and would all go to the same endpoint until they hear more.
func (s *Set) prefers(index, other int, nowNs uint64, random Random) bool {
	m, o := &s.members[index], &s.members[other]
	if m.calls != o.calls {
		return m.calls < o.calls
	}
	if nowNs >= m.loadUntilNs || nowNs >= o.loadUntilNs || m.load == o.load {
		return false
	}
	return random.IntN(int(m.load)+int(o.load)+2*loadBase) < int(o.load)+loadBase
}

// Probe returns an endpoint whose rest is over and which must be tried beside calls, if there
// is one in a group up to this one. It is not returned again until another rest has passed.
func (s *Set) Probe(nowNs uint64, group int) (index int, found bool) {
	for i := range s.above {
		m := &s.members[i]
		if m.present && m.group <= group && m.hasFailed() && m.isProbed() && nowNs >= m.untilNs {
			m.lease(nowNs)
			return i, true
		}
	}
	return 0, false
}

// nearestUsable returns the nearest group with endpoints that may be used, and their number.
func (s *Set) nearestUsable(nowNs uint64, not Bits) (group, count int) {
	for i := range s.above {
		m := &s.members[i]
		switch {
		case not.Has(i) || !m.usable(nowNs) || count > 0 && m.group > group:
		case count > 0 && m.group == group:
			count++
		default:
			group, count = m.group, 1
		}
	}
	return group, count
}

// usable returns the nth endpoint of a group that may be used.
func (s *Set) usable(nowNs uint64, not Bits, group, nth int) int {
	for i := range s.above {
		if m := &s.members[i]; m.group == group && !not.Has(i) && m.usable(nowNs) {
			if nth == 0 {
				return i
			}
			nth--
		}
	}
	return -1
}

// firstToReturn returns the endpoint whose rest ends first, the nearest of them.
func (s *Set) firstToReturn(not Bits) (index int, found bool) {
	for i := range s.above {
		m, best := &s.members[i], &s.members[index]
		if m.present && !not.Has(i) && (!found || m.untilNs < best.untilNs || m.untilNs == best.untilNs && m.group < best.group) {
			index, found = i, true
		}
	}
	return index, found
}

// usable reports whether a call may go to the endpoint. After a rest one call finds out
// whether it is back; see lease.
func (m *member) usable(nowNs uint64) bool {
	switch {
	case !m.present:
		return false
	case m.hasFailed():
		return !m.isProbed() && nowNs >= m.untilNs
	}
	return nowNs >= m.untilNs
}

func (m *member) hasFailed() bool { return m.state == Failed || m.state == Silent }

func (m *member) isProbed() bool { return m.beside || m.state == Silent }

// lease lets the endpoint rest for as long as before, while one call or probe finds out
// whether it is back. If that never says what it has found, the next one tries after that time.
func (m *member) lease(nowNs uint64) {
	if m.hasFailed() {
		m.untilNs = nowNs + m.lengthNs
	}
}

// Failed tells that connecting to an endpoint failed, or that a connection to it was lost.
func (s *Set) Failed(index int, nowNs uint64, random Random) { s.fail(index, Failed, nowNs, random) }

// Silent tells that nothing has come from an endpoint for too long.
func (s *Set) Silent(index int, nowNs uint64, random Random) { s.fail(index, Silent, nowNs, random) }

func (s *Set) fail(index int, state State, nowNs uint64, random Random) {
	m := &s.members[index]
	if !m.present {
		return
	}
	mean := s.limits.RestFirst
	for range m.failures {
		if mean = 2 * mean; mean >= s.limits.Rest {
			mean = s.limits.Rest
			break
		}
	}
	// Microseconds fit into the int of every machine.
	length := mean/2 + 1000*uint64(random.IntN(int(mean/1000)+1))
	if s.hasStandIn(index) {
		length = min(length, s.limits.Return)
	}
	m.state, m.lengthNs, m.untilNs = state, length, nowNs+length
	m.failures++
}

// hasStandIn reports whether calls may have gone elsewhere because of this endpoint, without going
// to a nearer one.
func (s *Set) hasStandIn(index int) bool {
	for i := range s.above {
		if m := &s.members[i]; m.present && i != index && m.group >= s.members[index].group {
			return true
		}
	}
	return false
}

// Succeeded tells that an endpoint was connected to. What it has failed before is forgotten.
func (s *Set) Succeeded(index int) {
	if m := &s.members[index]; m.hasFailed() {
		m.state, m.failures, m.untilNs = Ready, 0, 0
	}
}

// Full tells that an endpoint had no room for a call.
func (s *Set) Full(index int, nowNs uint64) {
	if m := &s.members[index]; m.present && !m.hasFailed() {
		m.state, m.untilNs = Full, nowNs+s.limits.Full
	}
}

// loadBase is added to loads before they are compared: there is little between one that has nothing
// to do and one that has a call for each of its processors.
const loadBase = 1000

// loadMax keeps the sum of two loads within the int of every machine.
const loadMax = 1 << 24

// Load tells what an endpoint has said of its load: the calls that it has for each processor, in
// thousandths.
func (s *Set) Load(index int, load uint32, nowNs uint64) {
	m := &s.members[index]
	m.load, m.loadUntilNs = min(load, loadMax), nowNs+s.limits.Load
}

// Began and Ended count the calls that an endpoint has of this caller.
func (s *Set) Began(index int) { s.members[index].calls++ }

// Ended tells that a call of an endpoint is over; see Began.
func (s *Set) Ended(index int) { s.members[index].calls-- }

// Look returns what is known of an endpoint, and for how long it is still left alone.
func (s *Set) Look(index int, nowNs uint64) (state State, restsNs uint64) {
	m := &s.members[index]
	if nowNs < m.untilNs {
		return m.state, m.untilNs - nowNs
	}
	if m.state == Full {
		return Ready, 0
	}
	return m.state, 0
}
