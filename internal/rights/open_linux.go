package rights

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// NewFile is os.NewFile for a descriptor that came from another process. os.NewFile
// registers a non-blocking one with the runtime's poller. For that the kernel asks
// whoever is behind the file, such as a process for a file of FUSE, or the holder of a
// lock for an epoll. The scheduler is not told, so the rest of the program would stop
// meanwhile. So only pipes and the common sockets are registered. For any other that
// does not block, Read returns EAGAIN, as its sender wanted.
func NewFile(number int, name string) (*os.File, error) {
	// Its sender may change at any moment whether it blocks.
	if seen := lookAt(number); seen.pollsAtOnce || seen.isOrdinary {
		return os.NewFile(uintptr(number), name), nil
	}
	defer Close(number)
	// Only a number is needed. The runtime does not notice what then takes the place of
	// this file.
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
