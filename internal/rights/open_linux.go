package rights

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// NewFile is os.NewFile for a descriptor that came from elsewhere. os.NewFile registers one that
// does not block with the runtime's poller, for which the kernel asks whoever is behind it: a process, for
// a file of FUSE; whoever has the lock, for an epoll. The scheduler is not told, so that nothing else of
// the program would go on. So only pipes, sockets and terminals are registered. Of others that do
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

// Terminals, by their kernel's numbers of devices.
const (
	terminalFirst, terminalLast             = 4, 5
	pseudoTerminalFirst, pseudoTerminalLast = 136, 143
)

// pollsAtOnce tells what the kernel can be asked about without waiting: whether it can be read.
func pollsAtOnce(number int) bool {
	if _, err := unix.GetsockoptInt(number, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil {
		return true
	}
	var stat unix.Statx_t
	if unix.Statx(number, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stat) != nil {
		return false
	}
	major := stat.Rdev_major
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return true
	case unix.S_IFCHR:
		return major >= terminalFirst && major <= terminalLast || major >= pseudoTerminalFirst && major <= pseudoTerminalLast
	}
	return false
}
