package bus

import "github.com/nearcall/nearcall/internal/wire"

// times are when a stream was last heard of, in milliseconds.
type times struct {
	heardMs  uint64
	askedMs  uint64 // when something was first sent after that, 0: nothing
	probedMs uint64 // when it was last asked about after that, 0: not yet
	probes   uint
}

// ask notes that something is sent.
func (t *times) ask(nowMs uint64) {
	if t.askedMs == 0 {
		t.askedMs = nowMs
	}
}

// hear notes that something has come.
func (t *times) hear(nowMs uint64) { *t = times{heardMs: nowMs} }

// probeDue reports whether it is time to ask whether the peer is there: soon if it has not
// answered what was sent, and less and less often then; seldom if nothing was sent, which is for
// the side that has dialled, and for one that has ended its stream.
func (t *times) probeDue(nowMs uint64, whenIdle bool) bool {
	from, after := max(t.heardMs, t.probedMs), uint64(idleProbeMs)
	if t.askedMs > 0 {
		from, after = max(t.askedMs, t.probedMs), min(uint64(wire.BusProbeMs)<<min(t.probes, 16), idleProbeMs)
	} else if !whenIdle {
		return false
	}
	if nowMs < from+after {
		return false
	}
	t.probedMs = nowMs
	t.probes++
	return true
}

// silent reports whether nothing was heard for so long that the stream is given up.
func (t *times) silent(nowMs uint64) bool { return nowMs >= t.heardMs+silenceMs }

// A pace is how much of its window a stream uses.
type pace struct {
	bytes uint64
	// crowded is set if a message was held up since the pace was last looked at.
	crowded bool
}

// note lowers the pace if a message that came was held up for so many milliseconds.
func (p *pace) note(late int64) {
	if late > crowdedMs {
		p.bytes, p.crowded = max(p.bytes/2, min(p.bytes, paceLeast)), true
	}
}

// raise raises the pace up to the window, if messages come quickly.
func (p *pace) raise(window uint64) {
	if !p.crowded {
		p.bytes = min(2*p.bytes, window)
	}
	p.crowded = false
}

// delays judge how long messages were on their way, without clocks that agree: by the shortest
// delay that was seen lately.
type delays struct {
	known, knownFormer bool
	least, former      int32 // of the receiver's clock less the sender's
	sinceMs            uint64
}

// note returns by how many milliseconds a message was later than the quickest.
func (d *delays) note(sentMs uint32, nowMs uint64) (late int64) {
	delay := int32(uint32(nowMs) - sentMs)
	if !d.known {
		d.known, d.least, d.sinceMs = true, delay, nowMs
		return 0
	}
	// Differences of the numbers count, because each of them may have wrapped around.
	late = int64(delay - d.least)
	if d.knownFormer {
		late = max(late, int64(delay-d.former))
	}
	switch {
	case nowMs-d.sinceMs >= delaysKeptMs:
		d.former, d.knownFormer = d.least, true
		d.least, d.sinceMs = delay, nowMs
	case delay-d.least < 0:
		d.least = delay
	}
	return max(late, 0)
}
