package sharedmemory

import "runtime/metrics"

// goroutines counts the goroutines of the process. Its zero value is ready for use.
type goroutines struct {
	sample []metrics.Sample // kept, so that asking allocates nothing
}

// runnable returns how many goroutines are ready to run but do not run, or 0 if that is
// not known.
func (g *goroutines) runnable() uint64 {
	if g.sample == nil {
		g.sample = []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	}
	metrics.Read(g.sample)
	if g.sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return g.sample[0].Value.Uint64()
}
