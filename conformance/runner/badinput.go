package main

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// badInputRepeats is how often each kind of bad input is measured.
const badInputRepeats = 30

// besideBound is what 99 of 100 calls of the client beside may take.
const besideBound = 20 * time.Millisecond

// silentConnections say nothing, or claim much and say little, all at once.
const silentConnections = 1000

// badInput is one kind of bad input and how its end looks.
type badInput struct {
	name    string
	open    bool // after hello and welcome
	send    any
	expect  any // the error that says what was wrong; nil where none is due
	goesOn  bool
	boundMs int64
}

func errorFrame(code string, callID uint64) object {
	return object{"frame": object{"type": "ERROR", "call_id": callID, "code": code}}
}

func badInputs() []badInput {
	lie := func(member string, number uint64) object {
		return object{"frame": object{"type": "REQUEST", "call_id": uint64(1), "function_id": uint64(1), member: number}}
	}
	request := func(payload any) object {
		return object{"frame": object{"type": "REQUEST", "call_id": uint64(1), "codec": "msgpack",
			"extensions": []any{[]any{"0x8001", "identity"}}, "payload": payload}}
	}
	tooLong, illegal := errorFrame("RESOURCE_EXHAUSTED", 0), errorFrame("INVALID_ARGUMENT", 0)
	arguments := errorFrame("INVALID_ARGUMENT", 1)
	return []badInput{
		{"a length of 4 GiB - 1", true, lie("length", 1<<32-1), tooLong, false, 10},
		{"a length that is negative as a signed number", true, lie("length", 1<<31), tooLong, false, 10},
		{"extension bytes that overflow with the header", true, lie("extension_bytes", 1<<32-32), illegal, false, 10},
		{"an array of 2^32 - 1 elements in 5 bytes", true, request("91 DD FF FF FF FF"), arguments, true, 10},
		{"nesting of a million", true, request([]any{"91", object{"repeat": "91", "times": "1000000"}, "01"}), arguments, true, 10},
		{"garbage instead of a frame", true, object{"repeat": "DE AD BE EF", "times": "64"}, object{"frame": object{"type": "ERROR", "call_id": uint64(0)}}, false, 10},
		{"garbage instead of a hello", false, object{"repeat": "DE AD BE EF", "times": "64"}, nil, false, 10},
		{"a hello of 4 GiB - 1", false, object{"hello": object{"total_bytes": uint64(1<<32 - 1)}}, object{"welcome": object{"version": uint64(0)}}, false, 10},
		{"a simple request of 16 MiB - 1", false, "00 FF FF FF 7B", object{"simple": object{"ok": false}}, false, 10},
	}
}

// measureBadInput prints how soon bad input is refused while a well-behaved
// client calls beside it, and fails when a bound is broken.
func (r *runner) measureBadInput() error {
	st, err := r.startStage("bad-input", false)
	if err != nil {
		return err
	}
	quiet := startWatch(st.canary)
	time.Sleep(500 * time.Millisecond) // what the canary measures without disturbance
	alone, err := quiet.finish(besideBound)
	if err != nil {
		return err
	}
	beside := startWatch(st.canary)
	failed := r.measureAll(st)
	disturbed, err := beside.finish(besideBound)
	if err != nil {
		return err
	}
	r.report.note("well-behaved client alone:  %s", alone)
	r.report.note("well-behaved client beside: %s", disturbed)
	if err := st.settled(); err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	if failed > 0 {
		return fmt.Errorf("%d bounds broken", failed)
	}
	return st.stop()
}

func (r *runner) measureAll(st *stage) int {
	failed := 0
	for _, b := range badInputs() {
		times, err := r.measureOne(st, b)
		failed += r.noteTimes(b.name, times, 0, b.boundMs, err)
	}
	times, err := r.measureTogether(st, nil, false)
	failed += r.noteTimes(fmt.Sprintf("%d connections that say nothing", silentConnections), times, 1900, 2500, err)
	failed += r.noteClaims(st)
	times, err = r.measureTogether(st, object{"first": "40", "of": claim(1000)}, true)
	return failed + r.noteTimes(fmt.Sprintf("%d halves of a frame, then silence", silentConnections), times, 1900, 2500, err)
}

// noteTimes prints one line. The bound is for nine of ten: the rest is the
// machine's scheduler, which runs this program too.
func (r *runner) noteTimes(name string, times []time.Duration, leastMs, boundMs int64, err error) int {
	if err != nil {
		r.report.note("FAIL %-46s %v", name, err)
		return 1
	}
	slices.Sort(times)
	least, median, most := times[0], times[len(times)/2], times[len(times)*9/10]
	verdict, failed := "ok  ", 0
	if most.Milliseconds() >= boundMs || least.Milliseconds() < leastMs {
		verdict, failed = "FAIL", 1
	}
	r.report.note("%s %-46s least %9.3f ms, median %9.3f ms, 9 of 10 below %9.3f ms, bound %d ms", verdict, name,
		milliseconds(least), milliseconds(median), milliseconds(most), boundMs)
	return failed
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r *runner) measureOne(st *stage, b badInput) ([]time.Duration, error) {
	var times []time.Duration
	for range badInputRepeats {
		took, err := r.measureOnce(st, b)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	return times, nil
}

// measureOnce returns the time from the last byte sent to the end: of the
// connection, or, where that goes on, of the error.
func (r *runner) measureOnce(st *stage, b badInput) (time.Duration, error) {
	s := newSession(r.spec, trial{vector: &vector{}})
	s.dial = st.server.dial
	defer s.close()
	none := object{}
	if b.open {
		if err := s.open(none, none); err != nil {
			return 0, err
		}
	}
	if err := s.send(b.send, none); err != nil {
		return 0, err
	}
	p, err := s.peer(none)
	if err != nil {
		return 0, err
	}
	if b.expect != nil {
		if err := s.expect(b.expect, none); err != nil {
			return 0, err
		}
	}
	if !b.goesOn {
		if err := p.expectClose(answerBound, b.expect == nil); err != nil {
			return 0, err
		}
	}
	return time.Since(p.sent), nil
}

// claim is a request that announces a payload of that many bytes.
func claim(bytes uint64) object {
	return object{"frame": object{"type": "REQUEST", "call_id": uint64(1), "function_id": uint64(1), "length": bytes, "payload": "01 02 03 04 05 06 07 08"}}
}

// measureTogether opens many connections, sends a beginning on each and
// measures when the server ends them.
func (r *runner) measureTogether(st *stage, beginning any, open bool) ([]time.Duration, error) {
	times := make([]time.Duration, silentConnections)
	failures := make([]error, silentConnections)
	var together sync.WaitGroup
	for i := range silentConnections {
		together.Go(func() { times[i], failures[i] = r.waitForEnd(st, beginning, open) })
	}
	together.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return times, nil
}

func (r *runner) waitForEnd(st *stage, beginning any, open bool) (time.Duration, error) {
	begin := time.Now()
	s := newSession(r.spec, trial{vector: &vector{}})
	s.dial = st.server.dial
	defer s.close()
	if open {
		if err := s.open(object{}, object{}); err != nil {
			return 0, err
		}
	}
	if beginning != nil {
		begin = time.Now()
	}
	if err := s.send(beginning, object{}); err != nil {
		return 0, err
	}
	p, err := s.peer(object{})
	if err != nil {
		return 0, err
	}
	err = p.expectClose(15*time.Second, true)
	return time.Since(begin), err
}

// claimedBytesAllowed is what the server may spend on a connection that has
// announced its largest frame and sent 40 bytes of it.
const claimedBytesAllowed = 128 << 10

// noteClaims prints what the server allocates for payloads that were only
// announced: many connections claim 4 MiB each and send 8 bytes.
func (r *runner) noteClaims(st *stage) int {
	const name = "memory for a claim of 4 MiB and 8 bytes sent"
	spent, err := r.measureClaims(st)
	verdict, failed := "ok  ", 0
	if err != nil || spent > claimedBytesAllowed {
		verdict, failed = "FAIL", 1
	}
	r.report.note("%s %-46s %d bytes a connection, bound %d (%v)", verdict, name, spent, claimedBytesAllowed, err)
	return failed
}

func (r *runner) measureClaims(st *stage) (uint64, error) {
	observer, err := newCanary(r.spec, st.server)
	if err != nil {
		return 0, err
	}
	defer observer.close()
	before, err := heapBytes(observer)
	if err != nil {
		return 0, err
	}
	const claims = 200
	for range claims {
		s := newSession(r.spec, trial{vector: &vector{}})
		s.dial = st.server.dial
		defer s.close()
		if err := s.open(object{}, object{}); err != nil {
			return 0, err
		}
		if err := s.send(claim(r.spec.limits["frame_bytes_max"]), object{}); err != nil {
			return 0, err
		}
		if err := waitUntilRead(connOf(s)); err != nil {
			return 0, err
		}
	}
	after, err := heapBytes(observer)
	return max(after, before)/claims - before/claims, err
}

func connOf(s *session) net.Conn { return s.peers["first"].conn }

func heapBytes(c *canary) (uint64, error) {
	stats, _, err := c.stats()
	if err != nil {
		return 0, err
	}
	return toNumber(stats["heap_bytes"])
}
