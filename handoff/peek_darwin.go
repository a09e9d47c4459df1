package handoff

// inputEnded cannot tell: poll(2) on macOS has no POLLRDHUP.
func inputEnded(uintptr) bool { return false }
