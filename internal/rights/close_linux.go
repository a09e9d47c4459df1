package rights

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Close closes descriptors that came from elsewhere. It does not wait for any of them, however
// many others do: one of a few goroutines closes them, all of a call one after the other.
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

// closeHere waits.
func closeHere(numbers []int) {
	for _, number := range numbers {
		Disarm(number)
		_ = unix.Close(number)
	}
}

// Crowded reports that a call is not to have such descriptors: very many wait to be
// closed, and so would one of these, or what the call itself opens, which is ordinary.
func Crowded(numbers ...int) bool {
	return ordinary.isFull() || slices.ContainsFunc(numbers, func(number int) bool { return laneOf(number).isFull() })
}

// An Open is a file, or a connection of package net.
type Open interface {
	syscall.Conn
	Close() error
}

// CloseOpen is Close for what a descriptor from elsewhere was made into. Nothing was written
// through it here, so that errors mean nothing.
func CloseOpen(open Open) {
	lane := &suspect
	raw, err := open.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { lane = laneOf(int(fd)) })
	}
	if err != nil {
		return // it is closed already
	}
	lane.run(1, func() { _ = open.Close() })
}

// Disarm makes sure that closing a socket which came from elsewhere does not wait for
// what was not sent. Nothing is lost by that: the kernel goes on sending. A linger time of zero,
// which does not wait and resets the connection, stays. It waits for whoever is using the socket.
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

// isOrdinary tells what seldom makes its closing wait. Nothing is sure: whoever shares a file can
// hold a lock that closing takes, or make a socket linger after it was looked at. Of a pipe that is
// easily done. It asks only what the kernel answers without waiting for anybody.
func isOrdinary(number int) bool {
	domain, err := unix.GetsockoptInt(number, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err == nil {
		// A local socket has others in its queue, perhaps.
		return (domain == unix.AF_INET || domain == unix.AF_INET6) && isOfInternet(number) && !lingers(number)
	}
	// In memory, as memfds are.
	if _, err := unix.FcntlInt(uintptr(number), unix.F_GET_SEALS, 0); err == nil {
		return true
	}
	var stat unix.Statx_t
	if unix.Statx(number, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stat) != nil {
		return false
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
		// It lies on a disk; what other processes and machines are asked about does not.
		return stat.Dev_major != 0
	}
	return false
}
