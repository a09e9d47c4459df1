package rights

import "golang.org/x/sys/unix"

// A look is what the kernel tells of a descriptor without waiting for anybody. What comes by the
// thousand is looked at once, and the scheduler is told of statx alone: a few file systems that
// no peer can mount ask others all the same.
type look struct {
	isSocket bool
	// isOrdinary means that closing the descriptor seldom has to wait. Nothing is
	// certain: whoever shares a file can hold a lock that closing needs, or make a socket
	// linger after it was looked at. With pipes that is easily done.
	isOrdinary bool
	// pollsAtOnce means that the kernel can be asked, without waiting, if the descriptor
	// can be read. Among sockets these are the ones whose poll takes no lock that their
	// owner can hold in a system call, as that of AF_VSOCK does. The poll of a terminal
	// waits for whoever changes its line discipline.
	pollsAtOnce bool
}

func lookAt(number int) look {
	if domain, failure := socketOption(number, unix.SO_DOMAIN); failure == 0 {
		return lookAtSocket(number, domain)
	}
	if hasSeals(number) { // this is a file in memory, such as a memfd
		return look{isOrdinary: true}
	}
	var stat unix.Statx_t
	if unix.Statx(number, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stat) != nil {
		return look{}
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
		// This file is on a disk. For files without a device, other processes or
		// machines have to be asked.
		return look{isOrdinary: stat.Dev_major != 0}
	case unix.S_IFIFO:
		return look{pollsAtOnce: true}
	}
	return look{}
}

// lookAtSocket tells TCP and UDP sockets from others that have Internet addresses. A local
// socket may have other descriptors in its queue.
func lookAtSocket(number, domain int) look {
	if domain != unix.AF_INET && domain != unix.AF_INET6 {
		return look{isSocket: true, pollsAtOnce: domain == unix.AF_UNIX}
	}
	protocol, failure := socketOption(number, unix.SO_PROTOCOL)
	common := failure == 0 && (protocol == unix.IPPROTO_TCP || protocol == unix.IPPROTO_UDP)
	return look{isSocket: true, pollsAtOnce: common, isOrdinary: common && !mayLinger(number)}
}
