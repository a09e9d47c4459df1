package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// barWidth leaves room for the names of rows on a terminal of 80 columns.
const barWidth = 16

// progress tells whoever waits how far a run is: a bar on a terminal, elsewhere a line
// for each group. Its measure is the schedule's time.
type progress struct {
	to          *os.File
	bar         *progressbar.ProgressBar // nil: lines
	began       time.Time
	total, done time.Duration
	group       string
}

func newProgress(to *os.File, total time.Duration) *progress {
	total = max(total, time.Millisecond) // of nothing there is no bar
	p := &progress{to: to, began: time.Now(), total: total}
	if term.IsTerminal(int(to.Fd())) {
		p.bar = progressbar.NewOptions64(total.Milliseconds(), progressbar.OptionSetWriter(to), progressbar.OptionSetWidth(barWidth),
			progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(true), progressbar.OptionShowDescriptionAtLineEnd(),
			progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	}
	return p
}

// begin says that a group or part begins, which takes about that long.
func (p *progress) begin(name string, length time.Duration) {
	p.group = name
	if p.bar != nil {
		p.bar.Describe(name)
		return
	}
	fmt.Fprintf(p.to, "%s: about %s; %s gone, %s left\n", name, length.Round(time.Second),
		time.Since(p.began).Round(time.Second), p.left().Round(time.Second))
}

// row says which row has its turn.
func (p *progress) row(name string) {
	if p.bar != nil {
		p.bar.Describe(p.group + ": " + name)
	}
}

// add says that what was planned to take that long is done.
func (p *progress) add(length time.Duration) {
	p.done += length
	if p.bar != nil {
		// The bar refuses to be more than full; a plan is not that exact.
		_ = p.bar.Set64(min(p.done, p.total).Milliseconds())
	}
}

// left is how long the rest takes, if it keeps to the plan as what is done did.
func (p *progress) left() time.Duration {
	left := p.total - p.done
	if p.done == 0 {
		return left
	}
	return time.Duration(float64(left) * float64(time.Since(p.began)) / float64(p.done))
}

// say writes a line that stays.
func (p *progress) say(format string, args ...any) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintf(p.to, "benchmarks: "+format+"\n", args...)
}

// end takes the bar away, and says how long all took.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
	fmt.Fprintf(p.to, "took %s, planned were %s\n", time.Since(p.began).Round(time.Second), p.total.Round(time.Second))
}
