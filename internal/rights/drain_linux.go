package rights

import "golang.org/x/sys/unix"

// drainBytes is how many bytes are taken from a queue at once.
const drainBytes = 64 << 10

// Drain empties a stream socket that is about to be closed: nothing more can arrive,
// and the descriptors in its queue are taken out, because the kernel would close them
// with the socket. If there are some, a duplicate of the socket is kept until they are
// closed, and the peer is told of the end only then. Nobody may read from the socket
// meanwhile or later. Bytes that were not read stay unread as far as possible, because
// they tell the peer what was not read.
func Drain(socket int) {
	// This fails if nothing can arrive any more. Without it the peer could go on
	// sending for ever.
	_ = unix.Shutdown(socket, unix.SHUT_RD)
	for {
		if anyHas(waitingMax) && isNext(socket) && leave(socket, nil) {
			return
		}
		numbers, more := takeNext(socket)
		if len(numbers) > 0 && leave(socket, numbers) {
			return
		}
		Close(numbers...)
		if !more {
			return
		}
	}
}

// leave hands the descriptors that came from a socket, and what is still in its queue,
// to those who close them. It fails if this process can have no more descriptors.
func leave(socket int, numbers []int) bool {
	duplicate, err := unix.FcntlInt(uintptr(socket), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false
	}
	suspect.run(len(numbers)+1, func() {
		closeHere(numbers)
		for more := true; more; {
			numbers, more = takeNext(duplicate)
			closeHere(numbers)
		}
		_ = unix.Close(duplicate)
	})
	return true
}

// takeNext reads on in a queue and returns the descriptors that it finds. more means
// that there may be others.
func takeNext(socket int) (numbers []int, more bool) {
	// Reading a part of what came with descriptors is enough to get them, so one byte
	// can stay.
	left, err := unix.IoctlGetInt(socket, unix.TIOCINQ)
	if err != nil || left == 0 || left == 1 && !isNext(socket) {
		return nil, false
	}
	r, failure := Receive(socket, make([]byte, min(max(1, left-1), drainBytes)))
	return r.Numbers, failure == 0 && r.Bytes > 0
}

// MustStay reports whether descriptors are next in a socket's queue and must stay
// there, because so many wait to be closed that a peer which sends more has to lose its
// connection. asked means that descriptors were agreed on; calls that bring them are
// then refused first.
func MustStay(socket int, asked bool) bool {
	most := int64(waitingMax)
	if asked {
		most = waitingAskedMax
	}
	return anyHas(most) && isNext(socket)
}

// isNext reports whether descriptors came with the byte at the front.
func isNext(socket int) bool {
	for {
		_, _, flags, _, err := unix.RecvmsgBuffers(socket, [][]byte{make([]byte, 1)}, nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return err == nil && flags&unix.MSG_CTRUNC != 0
		}
	}
}
