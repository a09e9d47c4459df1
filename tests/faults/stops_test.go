package faults_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory/memorytest"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/processes"
	"github.com/nearcall/nearcall/tests/processes/ledger"
)

const (
	defaultStops    = 15 // of each side in each phase
	stopTimeoutMs   = 100
	stopTimeout     = stopTimeoutMs * time.Millisecond
	graceOfDeadline = 50 * time.Millisecond
	momentMax       = 20 * time.Millisecond
	canaryCalls     = 2000
	// A canary beside a stopped caller may be this much slower than alone: other
	// processes come and go.
	canarySlowerMax = 10
	canaryFloor     = 2 * time.Millisecond
)

// TestStops stops the server or a caller in each phase of calls through shared
// memory. Deadlines hold, the calls afterwards succeed, and a caller that stands
// still holds up nobody.
func TestStops(t *testing.T) {
	seed := processes.Seed(t)
	for _, phase := range []string{"hot", "asleep", "middle", "pipelined"} {
		for _, side := range []string{"server", "caller"} {
			t.Run(phase+", "+side, func(t *testing.T) {
				s := newStops(t, phase, seed)
				defer s.witness.Close()
				for range processes.Setting(t, "NEARCALL_STOPS", defaultStops) {
					s.round(side)
				}
				s.tell()
			})
		}
	}
}

// stops is one server with one caller that is in one phase over and over, and
// a canary beside it.
type stops struct {
	t       *testing.T
	phase   string
	random  *rand.Rand
	witness *processes.Witness
	server  *processes.Process
	caller  *processes.Process
	delayed time.Duration // the caller, before its calls
	input   io.Writer
	canary  *memorytest.Caller
	alone   time.Duration // the canary's p99 then
	worst   time.Duration // beside a caller that stands still, but for what the machine adds
	counts  map[string]int
}

func newStops(t *testing.T, phase string, seed uint64) *stops {
	path := processes.Socket(t)
	s := &stops{t: t, phase: phase, random: rand.New(rand.NewPCG(seed, 0)), witness: processes.NewWitness(), counts: make(map[string]int)}
	s.server = processes.StartServer(t, nil, path, built.server, "-ledger", path+".ledger")
	t.Cleanup(s.server.Kill)
	var err error
	if s.canary, err = memorytest.ConnectWithMemory(path, time.Minute); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.canary.Close() })
	s.canary.Looks = 1000
	s.caller = processes.StartWithInput(t, &s.input, built.phases, "unix:"+path, phase, strconv.Itoa(stopTimeoutMs))
	t.Cleanup(s.caller.Kill)
	s.check()
	s.alone = s.canaryTime()
	return s
}

func (s *stops) say(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.input, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stops) hear() string {
	s.t.Helper()
	if !s.caller.Lines.Scan() {
		s.t.Fatal("the caller has ended")
	}
	return s.caller.Lines.Text()
}

// check lets the caller make calls that must succeed.
func (s *stops) check() {
	s.t.Helper()
	s.say("check")
	if said := s.hear(); said != "ok" {
		s.t.Fatalf("calls with nothing in their way: %s", said)
	}
}

// round stops one side at one moment of the phase.
func (s *stops) round(side string) {
	s.t.Helper()
	if side == "server" {
		s.stopServer()
	} else {
		s.stopCaller()
	}
	s.check()
}

func (s *stops) stopServer() {
	if s.phase == "asleep" {
		s.server.Stop(s.t)
	}
	s.begin()
	if s.phase != "asleep" {
		s.server.Stop(s.t)
	}
	s.results(stopTimeout)
	s.server.Continue()
}

// begin lets the caller begin, and waits for a moment in the middle of it.
func (s *stops) begin() {
	s.delayed = s.caller.Delayed(s.t)
	s.say("go")
	if said := s.hear(); said != "ready" {
		s.t.Fatalf("the caller said %q", said)
	}
	if s.phase != "asleep" {
		<-time.After(time.Duration(s.random.Int64N(int64(momentMax))))
	}
}

func (s *stops) stopCaller() {
	s.begin()
	begun := time.Now()
	s.caller.Stop(s.t)
	s.worst = max(s.worst, s.canaryTime()-s.witness.Lateness()) // the machine's of that time
	<-time.After(time.Duration(s.random.Int64N(int64(2 * stopTimeout))))
	s.caller.Continue()
	s.results(max(stopTimeout, momentMax+time.Since(begun)))
}

// results hears what became of the calls; none may take longer than its deadline,
// or than its caller stood still, with what a deadline may be late and what the
// machine adds.
func (s *stops) results(bound time.Duration) {
	s.t.Helper()
	for line := s.hear(); line != "."; line = s.hear() {
		var code, outcome, tookUs int
		if n, err := fmt.Sscanf(line, "%d %d %d", &code, &outcome, &tookUs); n != 3 {
			s.t.Fatalf("the caller said %q: %v", line, err)
		}
		s.counts[ledger.Report{Ended: true, Code: status.Code(code), Outcome: status.Outcome(outcome)}.Describe()]++
		if code != 0 && status.Code(code) != status.DeadlineExceeded {
			s.t.Errorf("a call ended with %v, want success or DEADLINE_EXCEEDED", status.Code(code))
		}
		took, limit := time.Duration(tookUs)*time.Microsecond, bound+graceOfDeadline
		// One that spins is kept waiting longer than a witness that sleeps.
		delayed := s.caller.Delayed(s.t) - s.delayed
		if took > limit && (took > limit+latenessMax || !s.witness.Explains(took-limit-delayed)) {
			s.t.Errorf("a call took %s, at most %s are allowed, the machine adds %s and kept the caller waiting for %s: %s",
				took, limit, s.witness.Lateness(), delayed, line)
		}
	}
}

// canaryTime makes calls beside and returns how long the slowest of a hundred took.
func (s *stops) canaryTime() time.Duration {
	s.t.Helper()
	var times []time.Duration
	for range canaryCalls {
		start := time.Now()
		request := s.canary.Request("echo", []byte("canary"))
		if err := s.canary.Put(&request); err != nil {
			s.t.Fatal(err)
		}
		if reply, err := s.canary.TakeFrame(); err != nil || reply.CallID != request.CallID || string(reply.Payload) != "canary" {
			s.t.Fatalf("the canary's call %d: %v, reply to %d: %q", request.CallID, err, reply.CallID, reply.Payload)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[len(times)*99/100]
}

func (s *stops) tell() {
	s.t.Helper()
	s.t.Logf("%v; the canary's p99 alone %s, at worst beside a caller that stands still %s", s.counts, s.alone, s.worst)
	if limit := max(canarySlowerMax*s.alone, canaryFloor); s.worst > limit {
		s.t.Errorf("a caller that stands still holds up another: p99 %s, alone %s", s.worst, s.alone)
	}
	if len(s.counts) == 0 {
		s.t.Error("nothing was tested: no call was made")
	}
}
