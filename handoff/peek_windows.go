package handoff

import (
	"errors"
	"fmt"
)

// peekSocket is not to be had: the poller's wait for readability completes at
// once while part of a head is buffered, so that a peek would spin.
func peekSocket(uintptr, []byte) (n int, again bool, err error) {
	return 0, false, fmt.Errorf("%w: peeking on Windows; read what is needed and hand it on as Meta.Prefix", errors.ErrUnsupported)
}

func inputEnded(uintptr) bool { return false }
