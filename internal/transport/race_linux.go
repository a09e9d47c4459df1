//go:build race

package transport

import "syscall"

// tellRaceDetector says that what this goroutine has done so far comes before what those
// do that read from a socket, as each Write of package syscall does. This one writes
// nothing.
func tellRaceDetector() { _, _ = syscall.Write(-1, nil) }
