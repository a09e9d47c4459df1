package rights

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// NewFile is os.NewFile for a descriptor that came from elsewhere. os.NewFile registers one that
// does not block with the runtime's poller, for which the kernel asks whoever is behind it: a process, for
// a file of FUSE; whoever has the lock, for an epoll. The scheduler is not told, so that nothing else of
// the program would go on. So only pipes and the common sockets are registered. Of others that do
// not block Read says so (EAGAIN), as their sender wanted.
func NewFile(number int, name string) (*os.File, error) {
	// Whether it blocks its sender may change at any moment.
	if pollsAtOnce(number) || isOrdinary(number) {
		return os.NewFile(uintptr(number), name), nil
	}
	defer Close(number)
	// Only its number is wanted: by what it is then replaced, the runtime does not see.
	other, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open", err)
	}
	file := os.NewFile(uintptr(other), name)
	if err := unix.Dup3(number, other, unix.O_CLOEXEC); err != nil {
		return nil, errors.Join(os.NewSyscallError("dup3", err), file.Close())
	}
	return file, nil
}

// pollsAtOnce tells what the kernel can be asked about without waiting: whether it can be read. Of
// sockets these are the ones whose poll takes no lock that their owner can hold in a system call
// (AF_VSOCK's does); a terminal's waits for whoever changes its line discipline.
func pollsAtOnce(number int) bool {
	domain, err := unix.GetsockoptInt(number, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err == nil {
		return domain == unix.AF_UNIX || (domain == unix.AF_INET || domain == unix.AF_INET6) && isOfInternet(number)
	}
	var stat unix.Statx_t
	err = unix.Statx(number, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stat)
	return err == nil && stat.Mode&unix.S_IFMT == unix.S_IFIFO
}

// isOfInternet tells TCP and UDP from what else has an Internet address.
func isOfInternet(number int) bool {
	protocol, err := unix.GetsockoptInt(number, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && (protocol == unix.IPPROTO_TCP || protocol == unix.IPPROTO_UDP)
}
