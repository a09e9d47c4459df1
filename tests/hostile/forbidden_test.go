package hostile_test

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// breakIn tries all that a caller is not to be able to: to write what is the
// server's, and to change a region's size or seals.
func breakIn(callerFile, serverFile *os.File, callerRegion, serverRegion []byte) error {
	caller, server := int(callerFile.Fd()), int(serverFile.Fd())
	attempts := map[string]error{
		"F_ADD_SEALS to the caller region":       addSeals(caller),
		"F_ADD_SEALS to the server region":       addSeals(server),
		"to truncate the caller region":          unix.Ftruncate(caller, 0),
		"to truncate the server region":          unix.Ftruncate(server, 0),
		"to enlarge the caller region":           unix.Ftruncate(caller, int64(len(callerRegion))+pageBytes),
		"to enlarge the server region":           unix.Fallocate(server, 0, int64(len(serverRegion)), pageBytes),
		"to punch a hole into the server region": unix.Fallocate(server, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, pageBytes),
		"MADV_REMOVE on the server region":       unix.Madvise(serverRegion[:pageBytes], unix.MADV_REMOVE),
		"to make the server region writable":     unix.Mprotect(serverRegion[:pageBytes], unix.PROT_READ|unix.PROT_WRITE),
		"to map the server region for writing":   mapForWriting(server, len(serverRegion)),
		"to write to the server region":          write(server),
		"to write to it through /proc":           openAndWrite(server),
	}
	for what, err := range attempts {
		if err == nil {
			return fmt.Errorf("a caller is able %s", what)
		}
	}
	return nil
}

func addSeals(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
	return err
}

func write(fd int) error {
	_, err := unix.Pwrite(fd, []byte{1}, 0)
	return err
}

func mapForWriting(fd, bytes int) error {
	mapped, err := unix.Mmap(fd, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		_ = unix.Munmap(mapped)
	}
	return err
}

func openAndWrite(fd int) error {
	file, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	return write(int(file.Fd()))
}
