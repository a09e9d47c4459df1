package channel

import (
	"errors"

	"github.com/nearcall/nearcall/internal/rights"
)

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

// send sends without waiting, as far as the socket takes it.
func send(fd int, b, control []byte) (int, error) {
	n, failure := rights.Send(fd, b, control)
	if failure != 0 {
		return 0, failure
	}
	return n, nil
}

// receive reads without waiting. If descriptors are not expected, it looks first whether
// some came, which is quicker if none did.
func receive(fd int, into []byte, expected bool) (n int, descriptors []int, truncated bool, err error) {
	if !expected {
		n, plain, failure := rights.ReceivePlain(fd, into)
		switch {
		case failure != 0:
			return 0, nil, false, failure
		case plain:
			return n, nil, false, nil
		}
	}
	r, failure := rights.Receive(fd, into)
	if failure != 0 {
		err = failure
	}
	return r.Bytes, r.Numbers, r.Truncated, err
}

func drain(fd uintptr) { rights.Drain(int(fd)) }
