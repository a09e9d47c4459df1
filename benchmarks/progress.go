package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const (
	// barWidth leaves room for the names of rows on a terminal of 80 columns.
	barWidth = 16
	// tickPeriod is how often a bar moves on, whatever happens.
	tickPeriod = time.Second
	// planTrust is the share of a plan that is believed to keep to its time before
	// anything was done: the first rows alone would make the rest swing.
	planTrust = 0.05
)

// progress tells whoever waits how far a run is: a bar on a terminal, elsewhere a line
// for each group. Its measure is the schedule's time.
type progress struct {
	to    *os.File
	total time.Duration
	now   func() time.Time
	ended chan struct{} // closed by end
	ticks sync.WaitGroup

	mu    sync.Mutex
	bar   *progressbar.ProgressBar // nil: lines
	began time.Time
	// What is done of the plan, when that was known, and how much of it will be when
	// the group or part that is under way is.
	done, groupDone time.Duration
	doneAt          time.Time
	group, rowName  string
}

func newProgress(to *os.File, total time.Duration) *progress {
	total = max(total, time.Millisecond) // of nothing there is no bar
	p := &progress{to: to, total: total, now: time.Now, began: time.Now(), doneAt: time.Now(), ended: make(chan struct{})}
	if term.IsTerminal(int(to.Fd())) {
		p.bar = progressbar.NewOptions64(total.Milliseconds(), progressbar.OptionSetWriter(to), progressbar.OptionSetWidth(barWidth),
			progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(false), progressbar.OptionShowDescriptionAtLineEnd(),
			progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
		p.ticks.Go(p.tick)
	}
	return p
}

// tick moves the bar on while a row or a part takes its time.
func (p *progress) tick() {
	ticker := time.NewTicker(tickPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.mu.Lock()
			p.show()
			p.mu.Unlock()
		case <-p.ended:
			return
		}
	}
}

// begin says that a group or part begins, which takes about that long.
func (p *progress) begin(name string, length time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.group, p.rowName, p.groupDone = name, "", p.done+length
	if p.bar != nil {
		p.show()
		return
	}
	fmt.Fprintf(p.to, "%s: about %s; %s gone, %s left\n", name, length.Round(time.Second),
		p.now().Sub(p.began).Round(time.Second), p.left().Round(time.Second))
}

// row says which row has its turn.
func (p *progress) row(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rowName = ": " + name
	p.show()
}

// add says that what was planned to take that long is done.
func (p *progress) add(length time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.doneAt = p.done+length, p.now()
	p.show()
}

// finish says that all of the group or part is done.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.doneAt = p.groupDone, p.now()
	p.show()
}

// show draws the bar.
func (p *progress) show() {
	if p.bar == nil {
		return
	}
	p.bar.Describe(fmt.Sprintf("%s left; %s%s", p.left().Round(time.Second), p.group, p.rowName))
	// The bar refuses to be more than full; a plan is not that exact.
	_ = p.bar.Set64(min(p.reached(), p.total).Milliseconds())
}

// slowness is how long the plan's second takes, as far as anything is known.
func (p *progress) slowness() float64 {
	trust := planTrust * float64(p.total)
	return (float64(p.doneAt.Sub(p.began)) + trust) / (float64(p.done) + trust)
}

// reached is how much of the plan is done by now, about: never beyond what is under way.
func (p *progress) reached() time.Duration {
	since := time.Duration(float64(p.now().Sub(p.doneAt)) / p.slowness())
	return min(p.done+since, max(p.done, p.groupDone))
}

// left is how long the rest takes, if it keeps to the plan as what is done did.
func (p *progress) left() time.Duration {
	return time.Duration(float64(max(p.total-p.reached(), 0)) * p.slowness())
}

// say writes a line that stays.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintf(p.to, "benchmarks: "+format+"\n", args...)
}

// end takes the bar away, and says how long all took.
func (p *progress) end() {
	close(p.ended)
	p.ticks.Wait()
	if p.bar != nil {
		_ = p.bar.Finish()
	}
	fmt.Fprintf(p.to, "took %s, planned were %s\n", p.now().Sub(p.began).Round(time.Second), p.total.Round(time.Second))
}
