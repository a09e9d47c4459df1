package sharedmemory

import "runtime/metrics"

// goroutines counts those of the process. Its zero value is ready.
type goroutines struct {
	sample []metrics.Sample // kept, so that asking allocates nothing
}

// runnable is how many want to run and do not; 0 also where that is not known.
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
