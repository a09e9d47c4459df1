package governor_test

import "github.com/nearcall/nearcall/internal/transport/sharedmemory/governor"

// How the sides of a pair wait.
type mode int

const (
	auto mode = iota
	alwaysSleep
	alwaysSpin
)

// A side is one end of a connection in the world.
type side struct {
	w        *world
	t        *task
	g        *tracer
	mode     mode
	peer     *side
	awake    bool
	cpu      uint64 // what it has published
	frames   int    // in its ring
	sockets  int    // at its socket
	sentNs   uint64 // when it last sent to a peer that slept
	idleNs   uint64
	peerWas  bool // awake when this side went to sleep
	spunNs   uint64
	together bool   // both sides were on one CPU when this one woke, and stay there
	stops    [4]int // by reason
	moves    int
}

// A pair is a caller that calls and its server.
type pair struct {
	w              *world
	caller, server *side
	ration         *int   // places for spinners of the server's process
	pauseNs        uint64 // of the caller between two calls
	functionNs     uint64
	startedNs      uint64
	windows        []uint64 // calls in each
	calls          uint64
}

const windowNs = 100_000_000

// sleepNs is what a server measures of a sleep when it starts.
func (c *costs) sleepNs() uint64 { return min(4*(c.idleWakeNs+c.sendNs+c.receiveNs), 50_000) }

func newPair(w *world, m mode, ration *int, pauseNs, functionNs uint64) *pair {
	p := &pair{w: w, ration: ration, pauseNs: pauseNs, functionNs: functionNs}
	sleepNs := w.costs.sleepNs()
	p.caller = &side{w: w, mode: m, t: new(task), g: traced(true, sleepNs)}
	p.server = &side{w: w, mode: m, t: new(task), g: traced(false, sleepNs)}
	p.caller.peer, p.server.peer = p.server, p.caller
	p.caller.t.run(0, p.call)
	p.server.t.run(0, p.serverSleeps)
	return p
}

// begin places both sides, on a CPU of its own each if they are pinned.
func (p *pair) begin(pinned bool) {
	first, last := p.w.cpus[0], p.w.cpus[len(p.w.cpus)-1]
	if pinned {
		p.caller.t.pinned, p.server.t.pinned = first, last
	}
	p.w.place(p.caller.t, first)
	p.w.place(p.server.t, last)
}

func (s *side) processors() uint64 {
	if s.t.pinned != nil {
		return 1
	}
	return uint64(len(s.w.cpus))
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// look tells the governor of the machine, if that is due.
func (s *side) look() {
	if !s.g.Due(s.w.nowNs) {
		return
	}
	before := s.g.Reason()
	cpus := uint64(len(s.w.cpus))
	f := governor.Facts{Processors: s.processors(), CPU: s.t.on.number, PeerCPU: s.peer.cpu, PeerAwake: bit(s.peer.awake), Machine: cpus, Runnable: s.w.runnable(), Thread: 1, WaitedNs: s.t.delayNs}
	s.g.Look(s.w.nowNs, &f)
	s.count(before)
}

func (s *side) count(before governor.Reason) {
	if now := s.g.Reason(); now != before && now != governor.Hot {
		s.stops[now]++
	}
}

func (s *side) moveAway() {
	s.moves++
	s.w.move(s.t)
	s.publish()
}

func (s *side) publish() { s.cpu = s.t.on.number }

func (s *side) learn(spunNs uint64, poked bool) {
	before := s.g.Reason()
	switch {
	case !poked:
		s.g.Missed(spunNs, s.w.nowNs)
	case spunNs > 2000:
		s.g.HitLate(spunNs, s.w.nowNs)
	default:
		s.g.Hit()
	}
	s.count(before)
}

// sharesCPU reports whether the peer runs where this side does, and it is best to sleep at once.
func (s *side) sharesCPU(moves bool) (sleeps bool) {
	if s.peer.cpu != s.t.on.number || s.processors() < 2 {
		return false
	}
	if moves && s.g.Together(s.w.nowNs) {
		s.moveAway()
		return false
	}
	return true
}

// spin looks at the ring, yields, and looks on.
func (s *side) spin(ended func(poked bool)) {
	limit := s.g.LimitNs()
	if s.mode == alwaysSpin {
		limit = 1 << 50
	}
	s.spunNs = s.t.usedNs
	if s.frames > 0 {
		s.t.run(lookNs, func() { ended(true) })
		return
	}
	s.t.spin(min(limit, yieldAfterNs), func(poked bool) {
		if poked || limit <= yieldAfterNs {
			ended(poked)
			return
		}
		if s.g.Yields() {
			s.w.yield(s.t)
		}
		s.t.run(200, func() {
			switch {
			case s.frames > 0:
				if s.mode == auto && s.peer.cpu == s.t.on.number && s.g.TookTurn(s.w.nowNs) {
					s.moveAway()
				}
				ended(true)
			case s.mode == auto && s.peer.awake && s.sharesCPU(true):
				ended(false)
			default:
				s.t.spin(limit-yieldAfterNs, ended)
			}
		})
	})
}

func (s *side) spun() uint64 { return s.t.usedNs - s.spunNs }

// ---- The caller ----

func (p *pair) callerSpins() bool {
	c := p.caller
	switch c.mode {
	case alwaysSleep:
		return false
	case alwaysSpin:
		return len(p.w.cpus) > 1
	}
	c.look()
	return c.g.Spins()
}

func (p *pair) call() {
	w, c := p.w, p.caller
	p.startedNs = w.nowNs
	spins := p.callerSpins()
	if spins {
		c.awake = true
	}
	if !p.server.awake {
		p.sendRequest(spins)
		return
	}
	c.t.run(w.costs.hotCallNs/4, func() {
		if !p.server.awake {
			p.sendRequest(spins)
			return
		}
		p.server.frames++
		p.server.t.poke()
		p.await(spins)
	})
}

func (p *pair) sendRequest(spins bool) {
	w, c := p.w, p.caller
	c.sentNs = w.nowNs
	c.publish()
	c.t.run(w.costs.sendNs, func() {
		p.server.sockets++
		w.wakeUp(p.server.t, c.t)
		p.await(spins)
	})
}

func (p *pair) await(spins bool) {
	c := p.caller
	c.idleNs = p.w.nowNs
	if !spins {
		p.callerSleeps()
		return
	}
	c.spin(func(poked bool) {
		if c.mode == auto {
			c.learn(c.spun(), poked)
		}
		if !poked {
			p.callerSleeps()
			return
		}
		c.frames--
		p.returned()
	})
}

func (p *pair) callerSleeps() {
	w, c := p.w, p.caller
	c.awake = false
	if c.frames > 0 {
		c.frames--
		p.returned()
		return
	}
	w.block(c.t, func() {
		c.t.run(w.costs.receiveNs, func() {
			if c.sockets > 0 {
				c.sockets--
			} else {
				c.frames--
			}
			if sent := p.server.sentNs; sent >= c.idleNs {
				c.g.Slept(2 * (w.nowNs - sent))
			}
			p.returned()
		})
	})
}

func (p *pair) returned() {
	p.count(1)
	t := p.caller.t
	switch {
	case p.pauseNs == 0:
		if !p.fastForward() {
			t.run(50, p.call)
		}
	case p.pauseNs < 50_000:
		t.run(p.pauseNs, p.call)
	default:
		p.w.after(p.pauseNs, func() { p.w.wakeUp(t, nil) })
		p.w.block(t, p.call)
	}
}

func (p *pair) count(calls uint64) {
	i := int(p.w.nowNs / windowNs)
	for len(p.windows) <= i {
		p.windows = append(p.windows, 0)
	}
	p.windows[i] += calls
	p.calls += calls
}

// fastForward counts the calls that a hot pair makes until something else happens.
func (p *pair) fastForward() bool {
	w, c, s := p.w, p.caller, p.server
	k := s.t.on
	if !c.awake || !s.awake || !s.t.spinning || s.t.poked || k == nil || k.running != s.t || k == c.t.on ||
		w.nowNs < max(k.startNs, k.frozenNs) || p.functionNs > 2000 {
		return false
	}
	if c.mode == auto && (c.g.Due(w.nowNs) || !c.g.Spins()) {
		return false
	}
	until := min(w.nowNs+longestStepNs, w.timers[0].atNs)
	if c.mode == auto {
		until = min(until, c.g.dueNs())
	}
	left := s.t.leftNs
	s.t.leftNs, c.t.leftNs = 1<<50, 1<<50
	for _, k := range w.cpus {
		if k.running == nil || !k.running.harmless {
			until = min(until, w.endNs(k))
		}
	}
	s.t.leftNs = left
	each := w.costs.hotCallNs + p.functionNs
	if until < w.nowNs+4*each {
		c.t.leftNs = 1 << 50
		return false
	}
	n := (until - w.nowNs) / each
	s.t.leftNs = left + n*each
	c.t.harmless = true
	c.t.run(n*each, func() {
		c.t.harmless = false
		s.spunNs = s.t.usedNs
		for range min(n, 16) { // more say no more
			c.g.Hit()
			s.g.Hit()
		}
		p.count(n)
		p.call()
	})
	return true
}

// ---- The server ----

func (p *pair) serverIdle() {
	s := p.server
	s.idleNs, s.peerWas = p.w.nowNs, p.caller.awake
	if s.frames > 0 {
		p.serve()
		return
	}
	if !p.serverSpins() {
		p.serverSleeps()
		return
	}
	*p.ration--
	s.spin(func(poked bool) {
		*p.ration++
		if s.mode == auto {
			s.learn(s.spun(), poked)
		}
		if poked {
			p.serve()
			return
		}
		p.serverSleeps()
	})
}

func (p *pair) serverSpins() bool {
	s := p.server
	switch s.mode {
	case alwaysSleep:
		return false
	case alwaysSpin:
		return len(p.w.cpus) > 1
	}
	s.look()
	return s.g.Spins() && !s.together && p.caller.awake && *p.ration > 0
}

func (p *pair) serverSleeps() {
	w, s := p.w, p.server
	s.awake, s.together = false, false
	if s.frames > 0 {
		p.serve()
		return
	}
	w.block(s.t, func() {
		s.t.run(w.costs.receiveNs, func() {
			s.awake = true
			s.publish()
			if s.frames == 0 && s.sockets == 0 {
				p.serverIdle()
				return
			}
			s.frames += s.sockets
			s.sockets = 0
			soon := true
			if sent := p.caller.sentNs; sent >= s.idleNs {
				s.g.Slept(2 * (w.nowNs - sent))
				if s.peerWas {
					s.g.Paused(sent - s.idleNs)
				}
				soon = sent-s.idleNs <= s.g.LimitNs()
			}
			s.together = s.mode == auto && p.caller.awake && s.sharesCPU(soon)
			p.serve()
		})
	})
}

func (p *pair) serve() {
	w, s := p.w, p.server
	s.awake = true
	s.frames--
	s.t.run(p.functionNs+w.costs.hotCallNs/4, func() {
		if p.caller.awake {
			p.caller.frames++
			p.caller.t.poke()
			p.serverIdle()
			return
		}
		s.sentNs = w.nowNs
		s.publish()
		s.t.run(w.costs.sendNs, func() {
			p.caller.sockets++
			w.wakeUp(p.caller.t, s.t)
			p.serverIdle()
		})
	})
}
