package main

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// settleBound is how soon after a vector the server has given everything back.
const settleBound = 2 * time.Second

// stage is a server with a canary and what it holds when nothing happens.
type stage struct {
	server      *serverProcess
	canary      *canary
	descriptors int
	goroutines  uint64   // the middle one of the counts
	counts      []uint64 // in order, once they are all there
}

func (r *runner) startStage(name string, oldKernel bool) (*stage, error) {
	server := &serverProcess{address: r.address}
	if r.server != "" {
		folder, err := os.MkdirTemp(r.folder, name)
		if err != nil {
			return nil, err
		}
		if server, err = r.startServer(nil, folder, oldKernel); err != nil {
			return nil, err
		}
	}
	c, err := newCanary(r.spec, server)
	if err != nil {
		return nil, err
	}
	st := &stage{server: server, canary: c}
	return st, st.measure()
}

// measure takes the baseline after a first call has made what is made once.
func (st *stage) measure() error {
	if _, err := st.canary.call(); err != nil {
		return err
	}
	if err := waitFor(settleBound, st.measureGoroutines); err != nil || st.server.process == nil {
		return err
	}
	var err error
	st.descriptors, err = descriptors(st.server.process.Process.Pid)
	return err
}

// baselineCounts is of how many counts the middle one is the baseline: another goroutine may
// be about to end, which would hide one that stays later, or the one that counts may have
// been left out twice.
const baselineCounts = 5

// measureGoroutines takes a count. It has baselineCounts of them when it reports true.
func (st *stage) measureGoroutines() (bool, error) {
	count, err := st.countGoroutines()
	if err != nil {
		return false, err
	}
	st.counts = append(st.counts, count)
	if len(st.counts) < baselineCounts {
		return false, fmt.Errorf("%d of %d counts of goroutines were made in time", len(st.counts), baselineCounts)
	}
	slices.Sort(st.counts)
	st.goroutines = st.counts[baselineCounts/2]
	return true, nil
}

// countGoroutines leaves out the goroutine that a server uses to count where it has
// found that slow before, as each may be on a busy machine.
func (st *stage) countGoroutines() (count uint64, err error) {
	stats, overtaken, err := st.canary.stats()
	if err != nil {
		return 0, fmt.Errorf("nearcall.stats: %w", err)
	}
	count, err = toNumber(stats["goroutines"])
	if err != nil {
		return 0, fmt.Errorf("nearcall.stats: goroutines: %w", err)
	}
	if overtaken && count > 0 {
		count--
	}
	return count, nil
}

// settled makes sure that the server lives, serves, and holds no more than
// before: descriptors and goroutines return to the baseline.
func (st *stage) settled() error {
	if !st.server.alive() {
		return fmt.Errorf("the server has ended")
	}
	if _, err := st.canary.call(); err != nil {
		return err
	}
	return waitFor(settleBound, st.holdsNoMore)
}

func (st *stage) holdsNoMore() (bool, error) {
	if st.server.process != nil {
		open, err := descriptors(st.server.process.Process.Pid)
		if err != nil || open > st.descriptors {
			return false, fmt.Errorf("the server holds %d descriptors, %d before (%v)", open, st.descriptors, err)
		}
	}
	count, err := st.countGoroutines()
	if err != nil || count > st.goroutines {
		return false, fmt.Errorf("the server runs %d goroutines, %d before (%v)", count, st.goroutines, err)
	}
	return true, nil
}

func (st *stage) stop() error {
	st.canary.close()
	return st.server.stop()
}

const serverSubject = "go-server"

// holdServer tries every vector of side "server". Slow ones, which wait for
// timeouts, run at the same time on a server of their own.
func (r *runner) holdServer() error {
	chosen, known, err := r.trialsOf("server", serverSubject)
	if err != nil {
		return err
	}
	var slow, quick, own []trial
	for _, t := range chosen {
		switch {
		case t.Own != nil:
			own = append(own, t)
		case t.Slow:
			slow = append(slow, t)
		default:
			quick = append(quick, t)
		}
	}
	var together sync.WaitGroup
	var slowErr error
	together.Go(func() { slowErr = eachKernel(slow, known, r.holdSlow) })
	err = eachKernel(quick, known, r.holdQuick)
	together.Wait()
	for _, t := range own {
		r.report.add(serverSubject, t, r.playOwn(t), known[t.name])
	}
	if err == nil {
		err = slowErr
	}
	return err
}

func (r *runner) playServer(st *stage, t trial) error {
	s := newSession(r.spec, t)
	s.dial = st.server.dial
	return s.play(t.Steps)
}

// holdQuick plays one trial after the other, each followed by the checks that
// nothing stays behind.
func (r *runner) holdQuick(trials []trial, known map[string]bool, oldKernel bool) error {
	st, err := r.startStage("quick", oldKernel)
	if err != nil {
		return err
	}
	for _, t := range trials {
		err := t.try(func() error { return r.playServer(st, t) })
		if after := st.settled(); err == nil && after != nil {
			err = fmt.Errorf("afterwards: %w", after)
		}
		r.report.add(serverSubject, t, err, known[t.name])
		if !st.server.alive() || err != nil && st.settled() != nil {
			_ = st.stop()
			if st, err = r.startStage("quick", oldKernel); err != nil {
				return err
			}
		}
	}
	return st.stop()
}

func (r *runner) holdSlow(trials []trial, known map[string]bool, oldKernel bool) error {
	st, err := r.startStage("slow", oldKernel)
	if err != nil {
		return err
	}
	var together sync.WaitGroup
	for _, t := range trials {
		together.Go(func() {
			r.report.add(serverSubject, t, r.playServer(st, t), known[t.name])
		})
	}
	together.Wait()
	if err := st.settled(); err != nil {
		r.report.add(serverSubject, trial{vector: &vector{Meaning: "After timeouts nothing is left behind."}, name: "slow"}, err, false)
	}
	return st.stop()
}

// playOwn gives the trial a server for itself, which it may stop.
func (r *runner) playOwn(t trial) error {
	if r.server == "" {
		return fmt.Errorf("this vector needs -server: it stops the server")
	}
	folder, err := os.MkdirTemp(r.folder, "own")
	if err != nil {
		return err
	}
	server, err := r.startServer(t.Own.Arguments, folder, t.oldKernel)
	if err != nil {
		return err
	}
	s := newSession(r.spec, t)
	s.dial, s.signal = server.dial, server.signal
	err = s.play(t.Steps)
	if stopped := server.stop(); err == nil && stopped != nil {
		err = fmt.Errorf("afterwards: %w", stopped)
	}
	return err
}
