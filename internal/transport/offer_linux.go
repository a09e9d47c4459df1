package transport

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// A SocketOffer implements Offer for a socket of the kernel. Only the writer uses it.
type SocketOffer struct {
	Raw  syscall.RawConn
	room socketRoom
	take func(Room) bool
	// call is made once, so that offering allocates nothing.
	call func(fd uintptr) bool
}

// Offer implements OfferingCarrier.
func (o *SocketOffer) Offer(take func(Room) (done bool)) error {
	if o.call == nil {
		o.call = func(fd uintptr) bool {
			o.room.descriptor = int(fd)
			return o.take(&o.room)
		}
	}
	o.take = take
	return o.Raw.Write(o.call)
}

// A socketRoom is the room in the queue of a socket that package net or this process has
// made not to wait.
type socketRoom struct{ descriptor int }

// sentQuicklyMax bounds what is sent at once without telling the scheduler. The kernel copies
// so much in some microseconds.
const sentQuicklyMax = 64 << 10

// WriteNow implements Room.
func (r *socketRoom) WriteNow(b []byte) (taken int, err error) {
	for taken < len(b) {
		n, failure := sendQuickly(r.descriptor, b[taken:min(len(b), taken+sentQuicklyMax)])
		taken += n
		switch {
		case failure == 0 || failure == syscall.EINTR:
		case failure == syscall.ENOTSOCK:
			return r.writePlainly(b)
		case failure == syscall.EAGAIN || taken > 0: // the next attempt fails for the same reason
			return taken, nil
		default:
			return 0, failure
		}
	}
	return taken, nil
}

// writePlainly is WriteNow for what is no socket, such as a pipe.
func (r *socketRoom) writePlainly(b []byte) (int, error) {
	for {
		n, err := syscall.Write(r.descriptor, b)
		switch err {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, nil
		default:
			return max(n, 0), err
		}
	}
}

// SendNow implements LocalRoom.
func (r *socketRoom) SendNow(b []byte, descriptors []int) (int, error) {
	if len(descriptors) == 0 {
		return r.WriteNow(b)
	}
	rights := unix.UnixRights(descriptors...)
	for {
		n, err := syscall.SendmsgN(r.descriptor, b, rights, nil, syscall.MSG_NOSIGNAL|syscall.MSG_DONTWAIT)
		switch err {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, nil
		case syscall.ETOOMANYREFS:
			return 0, fmt.Errorf("%w: %w", ErrNotSent, err)
		default:
			return max(n, 0), err
		}
	}
}
