package main

// The published measurement of what a C call costs in Go had 40 processors of the
// scheduler on 48 cores, and kept 0 to 35 of them busy: there was always one free.
const (
	publishedProcessors = 40
	publishedBusyStep   = 5
	busyStepsMax        = 4 // with fewer CPUs; each takes as long as any of the published
)

// busyCounts returns how many processors Go's scheduler has, and how many of
// them are kept busy in turn. The published ones need as many CPUs: with fewer, threads
// that spin take turns on a CPU, and what is measured is the kernel's scheduler and
// nothing of Go's. There it is none to all of what the machine has, in at most
// busyStepsMax steps.
func busyCounts(cpus int) (processors int, busy []int) {
	if cpus >= publishedProcessors {
		processors = publishedProcessors
		for n := 0; n < processors; n += publishedBusyStep {
			busy = append(busy, n)
		}
		return processors, busy
	}
	step := (cpus + busyStepsMax - 1) / busyStepsMax
	for n := 0; n < cpus; n += step {
		busy = append(busy, n)
	}
	return cpus, append(busy, cpus)
}
