//go:build !amd64 && !arm64

package sharedmemory

// pause does nothing on processors for which no such instruction is known.
func pause() {}
