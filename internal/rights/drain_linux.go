package rights

import "golang.org/x/sys/unix"

// drainBytes are taken from a queue at once.
const drainBytes = 64 << 10

// Drain takes out of a stream socket's queue what descriptors there are, and lets nothing
// more come, before the socket is closed: the kernel would close them with it. It ends however long
// the peer goes on sending: only the end of that direction keeps bytes from coming too.
// Nobody may read from the socket meanwhile, or later. Bytes that were unread stay so, as far as
// that goes: from them the peer knows what was not read.
func Drain(socket int) {
	// It fails where nothing can come any more.
	_ = unix.Shutdown(socket, unix.SHUT_RD)
	var b []byte
	for {
		// Whoever reads a part of what came with descriptors has them; so one byte can stay.
		left, err := unix.IoctlGetInt(socket, unix.TIOCINQ)
		if err != nil || left == 0 || left == 1 && !withDescriptors(socket) {
			return
		}
		if b == nil {
			b = make([]byte, min(left, drainBytes))
		}
		r, failure := Receive(socket, b[:min(len(b), max(1, left-1))])
		Close(r.Numbers...)
		if failure != 0 || r.Bytes == 0 {
			return
		}
	}
}

// withDescriptors tells whether descriptors came with the byte at the front.
func withDescriptors(socket int) bool {
	for {
		_, _, flags, _, err := unix.RecvmsgBuffers(socket, [][]byte{make([]byte, 1)}, nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return err == nil && flags&unix.MSG_CTRUNC != 0
		}
	}
}
