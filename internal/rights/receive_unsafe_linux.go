package rights

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const wordBytes = 8

// A Control has room for the descriptors of one message.
type Control [controlBytes / wordBytes]uint64

// controlBytes is CMSG_SPACE for all that a message can bring.
const controlBytes = unix.SizeofCmsghdr + (MessageMax*NumberBytes+wordBytes-1)/wordBytes*wordBytes

var controls = sync.Pool{New: func() any { return new(Control) }}

// A Received is what one read took.
type Received struct {
	Bytes   int
	Numbers []int // close-on-exec; these belong to the caller
	// Truncated means that the process could not have all of them.
	Truncated bool
}

// Receive reads what has arrived, without waiting, and the descriptors that came with
// it. If the process can have no more descriptors, the kernel closes the others
// meanwhile, which may take long. The scheduler is told about that, unlike for reads
// that bring none.
func Receive(socket int, b []byte) (Received, unix.Errno) {
	control, _ := controls.Get().(*Control)
	defer controls.Put(control)
	vector := unix.Iovec{Base: unsafe.SliceData(b)}
	vector.SetLen(len(b))
	for {
		header := unix.Msghdr{Iov: &vector, Iovlen: 1, Control: (*byte)(unsafe.Pointer(control))}
		header.SetControllen(controlBytes)
		n, _, failure := unix.Syscall(unix.SYS_RECVMSG, uintptr(socket), uintptr(unsafe.Pointer(&header)),
			unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		switch failure {
		case unix.EINTR:
			continue
		case 0:
		default:
			return Received{}, failure
		}
		r := Received{Bytes: int(n), Truncated: header.Flags&unix.MSG_CTRUNC != 0}
		if header.Controllen > 0 {
			r.Numbers = Numbers(unsafe.Slice((*byte)(unsafe.Pointer(control)), header.Controllen))
		}
		return r, 0
	}
}
