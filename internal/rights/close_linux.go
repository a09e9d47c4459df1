package rights

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Close closes descriptors that came from another process. It does not wait for any of
// them, however many others do: a few goroutines close them, and one of these closes
// all descriptors of a call one after the other.
func Close(numbers ...int) {
	var usual, others []int
	for _, number := range numbers {
		switch {
		case number < 0:
		case isOrdinary(number):
			usual = append(usual, number)
		default:
			others = append(others, number)
		}
	}
	ordinary.close(usual)
	suspect.close(others)
}

func (c *closer) close(numbers []int) {
	if len(numbers) > 0 {
		c.run(len(numbers), func() { closeHere(numbers) })
	}
}

// closeHere closes them in this goroutine, and waits for that.
func closeHere(numbers []int) {
	for _, number := range numbers {
		Disarm(number)
		_ = unix.Close(number)
	}
}

// Crowded reports whether a call must not have such descriptors, because the lane is
// full in which one of them would wait to be closed, or the ordinary lane, in which
// those that the call itself opens would wait.
func Crowded(numbers ...int) bool {
	return ordinary.isFull() || slices.ContainsFunc(numbers, func(number int) bool { return laneOf(number).isFull() })
}

// An Open is a file, or a connection of package net.
type Open interface {
	syscall.Conn
	Close() error
}

// CloseOpen is Close for a file or a connection that was made from such a descriptor.
// Nothing was written through it here, so errors do not matter.
func CloseOpen(open Open) {
	lane := &suspect
	raw, err := open.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { lane = laneOf(int(fd)) })
	}
	if err != nil {
		return // it is already closed
	}
	lane.run(1, func() { _ = open.Close() })
}

// Disarm makes sure that closing a socket from another process does not wait for data
// that is not sent yet. Nothing is lost by that, because the kernel goes on sending. A
// linger time of zero stays; it does not wait, and resets the connection. Disarm waits
// for whoever is using the socket.
func Disarm(socket int) {
	if lingers(socket) {
		_ = unix.SetsockoptLinger(socket, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	}
}

func lingers(socket int) bool {
	linger, err := unix.GetsockoptLinger(socket, unix.SOL_SOCKET, unix.SO_LINGER)
	return err == nil && linger.Onoff != 0 && linger.Linger != 0
}

func laneOf(number int) *closer {
	if isOrdinary(number) {
		return &ordinary
	}
	return &suspect
}

// isOrdinary reports whether closing a descriptor seldom has to wait. Nothing is
// certain: whoever shares a file can hold a lock that closing needs, or make a socket
// linger after it was looked at. With pipes that is easily done. isOrdinary asks only
// what the kernel answers without waiting for anybody.
func isOrdinary(number int) bool {
	domain, err := unix.GetsockoptInt(number, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err == nil {
		// A local socket may have other descriptors in its queue.
		return (domain == unix.AF_INET || domain == unix.AF_INET6) && isOfInternet(number) && !lingers(number)
	}
	// This is a file in memory, such as a memfd.
	if _, err := unix.FcntlInt(uintptr(number), unix.F_GET_SEALS, 0); err == nil {
		return true
	}
	var stat unix.Statx_t
	if unix.Statx(number, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stat) != nil {
		return false
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
		// This file is on a disk. For files without a device, other processes or
		// machines have to be asked.
		return stat.Dev_major != 0
	}
	return false
}
