package rights

import "golang.org/x/sys/unix"

// drainBytes are taken from a queue at once.
const drainBytes = 64 << 10

// Drain lets nothing more come on a stream socket that is about to be closed, and takes out of its
// queue what descriptors there are: the kernel would close them with it. Where there are some a
// duplicate of the socket is left to who closes them, and the peer hears of the end when that is
// done. Nobody may read from the socket meanwhile, or later. Bytes that were unread stay so, as far
// as that goes: from them the peer knows what was not read.
func Drain(socket int) {
	// It fails where nothing can come any more. Else the peer could go on sending for ever.
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

// leave has descriptors closed that came from a socket, and what is still in its queue. It
// fails where this process can have no more of them.
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

// takeNext reads on in a queue, and returns descriptors that it finds; more: there may be others.
func takeNext(socket int) (numbers []int, more bool) {
	// Whoever reads a part of what came with descriptors has them; so one byte can stay.
	left, err := unix.IoctlGetInt(socket, unix.TIOCINQ)
	if err != nil || left == 0 || left == 1 && !isNext(socket) {
		return nil, false
	}
	r, failure := Receive(socket, make([]byte, min(max(1, left-1), drainBytes)))
	return r.Numbers, failure == 0 && r.Bytes > 0
}

// MustStay reports that descriptors are next in a socket's queue, and are to stay there: so many
// wait to be closed that whoever sends more has to lose the connection; asked: they were agreed to,
// and calls that bring them are refused before.
func MustStay(socket int, asked bool) bool {
	most := int64(waitingMax)
	if asked {
		most = waitingAskedMax
	}
	return anyHas(most) && isNext(socket)
}

// isNext tells whether descriptors came with the byte at the front.
func isNext(socket int) bool {
	for {
		_, _, flags, _, err := unix.RecvmsgBuffers(socket, [][]byte{make([]byte, 1)}, nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return err == nil && flags&unix.MSG_CTRUNC != 0
		}
	}
}
