//go:build amd64 || arm64

package sharedmemory

// pause tells the processor that it is in a loop that waits for memory. It is not
// itself a loop, so a goroutine can be preempted between two calls.
func pause()
