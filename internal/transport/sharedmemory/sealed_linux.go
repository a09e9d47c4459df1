package sharedmemory

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// sealedBytes returns the size of a file that a peer has sent, and fails if it must not be mapped:
// a file whose size could change, or whose pages may turn out not to exist, would end the process
// by a signal. Files of huge pages have seals, too.
func sealedBytes(fd int) (int64, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, fmt.Errorf("F_GET_SEALS: %w", err)
	}
	if seals&sealsOfBoth != sealsOfBoth {
		return 0, fmt.Errorf("memory has seals 0x%x; its size could change (0x%x are needed)", seals, sealsOfBoth)
	}
	var status unix.Stat_t
	var system unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &status), unix.Fstatfs(fd, &system)); err != nil {
		return 0, fmt.Errorf("fstat and fstatfs: %w", err)
	}
	if status.Mode&unix.S_IFMT != unix.S_IFREG || uint32(system.Type) != unix.TMPFS_MAGIC {
		return 0, fmt.Errorf("memory is a file of mode 0%o in a file system of type 0x%x, which is no file in memory", status.Mode, uint32(system.Type))
	}
	return status.Size, nil
}
