package sharedmemory

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// countRunnable returns how many threads of the machine run or want to run, or 0 if
// that is not known.
func countRunnable() uint64 {
	var buffer [128]byte
	// "0.20 0.18 0.12 1/80 11206"
	text := readFile("/proc/loadavg", buffer[:])
	running, _, _ := bytes.Cut(text, []byte{'/'})
	return number(running[bytes.LastIndexByte(running, ' ')+1:])
}

// threadWaited returns the calling thread, and for how long it has been ready to run
// without running.
func threadWaited() (thread, waitedNs uint64) {
	var buffer [128]byte
	// "528409 2050098 9": the second
	_, rest, _ := bytes.Cut(readFile("/proc/thread-self/schedstat", buffer[:]), []byte{' '})
	return uint64(unix.Gettid()), number(rest)
}

// machineCPUs returns how many CPUs of the machine are online, or 0 if that is not
// known.
func machineCPUs() (count uint64) {
	var buffer [1024]byte
	// "0-3,8-11"
	for part := range bytes.SplitSeq(readFile("/sys/devices/system/cpu/online", buffer[:]), []byte{','}) {
		first, last, isRange := bytes.Cut(part, []byte{'-'})
		if !isRange {
			last = first
		}
		if len(part) > 0 {
			count += number(last) - number(first) + 1
		}
	}
	return count
}

func readFile(path string, buffer []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buffer)
	if err != nil {
		return nil
	}
	return buffer[:n]
}

func number(text []byte) (n uint64) {
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			return n
		}
		n = 10*n + uint64(digit-'0')
	}
	return n
}
