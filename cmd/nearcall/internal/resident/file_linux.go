package resident

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"

	"golang.org/x/sys/unix"
)

// identify hashes what the kernel says of a program's file.
func identify(program string) (string, error) {
	var stat unix.Stat_t
	if err := unix.Stat(program, &stat); err != nil {
		return "", &os.PathError{Op: "stat", Path: program, Err: err}
	}
	var numbers []byte
	for _, number := range []uint64{stat.Dev, stat.Ino, uint64(stat.Size), uint64(stat.Mtim.Sec), uint64(stat.Mtim.Nsec),
		uint64(stat.Ctim.Sec), uint64(stat.Ctim.Nsec)} {
		numbers = binary.LittleEndian.AppendUint64(numbers, number)
	}
	hash := fnv.New64a()
	hash.Write(numbers)
	return fmt.Sprintf("%016x", hash.Sum64()), nil
}

// check refuses a directory that somebody else could put residents into.
func check(directory string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(directory, &stat); err != nil {
		return &os.PathError{Op: "lstat", Path: directory, Err: err}
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is no directory, so nothing can be resident: remove it", directory)
	case stat.Uid != uint32(os.Geteuid()):
		return fmt.Errorf("%s belongs to user %d, so nothing can be resident: set XDG_RUNTIME_DIR to a directory of your own", directory, stat.Uid)
	case stat.Mode&0o077 != 0:
		return fmt.Errorf("%s is open to others, so nothing can be resident: chmod 700 %[1]s", directory)
	}
	return nil
}
