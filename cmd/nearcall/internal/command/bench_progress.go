package command

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	progressPeriod = 100 * time.Millisecond
	// progressWidth leaves room for a setting's name on a terminal of 80 columns.
	progressWidth = 16
)

// name is how a progress bar calls a setting.
func (s *benchSetting) name() string {
	name := countOf(s.callers, "caller")
	if s.payloadBytes != nil {
		name += ", " + countOf(*s.payloadBytes, "byte")
	}
	if s.transport != "" {
		name += ", " + s.transport
	}
	return name
}

// A benchProgress shows on a terminal how far a run is, and how much time is left. A nil
// one shows nothing.
type benchProgress struct {
	bar    *progressbar.ProgressBar
	total  time.Duration
	length time.Duration // of a turn, unless its warm-up takes longer
	stop   chan struct{}
	ended  sync.WaitGroup

	mu    sync.Mutex
	done  time.Duration // of turns that are over
	begin time.Time     // of the present turn
}

// startProgress shows a bar until finish is called, where a person reads.
func (b *benching) startProgress(turns int, length time.Duration) *benchProgress {
	file, ok := b.err.(*os.File)
	if !ok || !isTerminal(file) {
		return nil
	}
	p := &benchProgress{total: time.Duration(turns) * length, length: length, begin: time.Now(), stop: make(chan struct{})}
	p.bar = progressbar.NewOptions64(int64(p.total), progressbar.OptionSetWriter(file), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(progressWidth), progressbar.OptionSetPredictTime(true), progressbar.OptionSetDescription("calling"), progressbar.OptionSetElapsedTime(false))
	p.ended.Go(p.show)
	return p
}

func (p *benchProgress) show() {
	ticks := time.NewTicker(progressPeriod)
	defer ticks.Stop()
	for {
		select {
		case <-p.stop:
			_ = p.bar.Finish() // clears the line
			return
		case <-ticks.C:
			p.mu.Lock()
			gone := p.done + min(time.Since(p.begin), p.length)
			p.mu.Unlock()
			_ = p.bar.Set64(int64(min(gone, p.total-1)))
		}
	}
}

// turn says which setting is measured now.
func (p *benchProgress) turn(name string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.begin = time.Now()
	p.mu.Unlock()
	p.bar.Describe(fmt.Sprintf("calling (%s)", name))
}

// add says that a turn is over.
func (p *benchProgress) add() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.done += p.length
	p.begin = time.Now()
	p.mu.Unlock()
}

func (p *benchProgress) finish() {
	if p == nil {
		return
	}
	close(p.stop)
	p.ended.Wait()
}
