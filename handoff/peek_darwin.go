package handoff

// inputEnded cannot be told: poll(2) of macOS knows no POLLRDHUP.
func inputEnded(uintptr) bool { return false }
