package handoff

import (
	"errors"
	"fmt"
)

// peekSocket does not work on Windows: while a part of a head is buffered, the poller's
// wait for more returns at once, so that a peek would spin.
func peekSocket(uintptr, []byte) (n int, again bool, err error) {
	return 0, false, fmt.Errorf("%w: peeking on Windows; read what is needed and hand it on as Meta.Prefix", errors.ErrUnsupported)
}

func inputEnded(uintptr) bool { return false }
