package channel

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights"
)

const noSignal = unix.MSG_NOSIGNAL

// Close closes descriptors that nobody is to have, without waiting for what they are;
// Lost ones need none.
func Close(descriptors []int) { rights.Close(descriptors...) }

// Allow lets the peer send descriptors, if it was not let do so before.
func (c *Channel) Allow() {
	// It fails where the socket is closed.
	_ = c.raw.Control(func(fd uintptr) { rights.Allow(int(fd)) })
}

func (c *Channel) refuseCredentials() error {
	var failure error
	err := c.raw.Control(func(fd uintptr) { failure = rights.RefuseCredentials(int(fd)) })
	return errors.Join(err, failure)
}

// receive reads without waiting.
func receive(fd int, into []byte) (n int, descriptors []int, truncated bool, err error) {
	r, failure := rights.Receive(fd, into)
	if failure != 0 {
		err = failure
	}
	return r.Bytes, r.Numbers, r.Truncated, err
}

func drain(fd uintptr) { rights.Drain(int(fd)) }
