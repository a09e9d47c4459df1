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
	var usual, others []foreign
	for _, number := range numbers {
		if number < 0 {
			continue
		}
		seen := lookAt(number)
		closing := foreign{number: number, isSocket: seen.isSocket}
		if seen.isOrdinary {
			usual = append(usual, closing)
		} else {
			others = append(others, closing)
		}
	}
	ordinary.close(usual)
	suspect.close(others)
}

// A foreign descriptor is one that came from another process.
type foreign struct {
	number   int
	isSocket bool
}

func (c *closer) close(all []foreign) {
	if len(all) > 0 {
		c.run(len(all), func() {
			for _, f := range all {
				f.closeHere()
			}
		})
	}
}

func (f foreign) closeHere() {
	if f.isSocket {
		Disarm(f.number)
	}
	_ = unix.Close(f.number)
}

// closeHere closes them in this goroutine, and waits for that.
func closeHere(numbers []int) {
	for _, number := range numbers {
		foreign{number, true}.closeHere()
	}
}

// Crowded reports whether a call must not have such descriptors, because the lane is
// full in which one of them would wait to be closed, or the ordinary lane, in which
// those that the call itself opens would wait.
func Crowded(numbers ...int) bool {
	return ordinary.isFull() ||
		suspect.isFull() && slices.ContainsFunc(numbers, func(number int) bool { return !lookAt(number).isOrdinary })
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

func laneOf(number int) *closer {
	if lookAt(number).isOrdinary {
		return &ordinary
	}
	return &suspect
}
