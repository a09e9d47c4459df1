//go:build amd64 || arm64

package sharedmemory

// pause tells the processor that this is a loop that waits for memory. Being no
// loop itself it can be preempted between any two.
func pause()
