package main

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// waitUntilRead returns when the other side has read all that was sent: the
// kernel counts what lies unread, so no guess about its speed is needed.
func waitUntilRead(conn net.Conn) error {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return errors.New("pieces need a real socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		unread := 0
		var failure error
		if err := raw.Control(func(fd uintptr) {
			unread, failure = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ)
		}); err != nil {
			return err
		}
		if failure != nil || unread == 0 {
			return failure
		}
		time.Sleep(20 * time.Microsecond)
	}
	return errors.New("the other side does not read what was sent")
}

// sendDescriptors sends bytes with descriptors in one message.
func sendDescriptors(conn net.Conn, data []byte, descriptors []int) error {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("descriptors need a local socket")
	}
	_, _, err := local.WriteMsgUnix(data, syscall.UnixRights(descriptors...), nil)
	return ignoreClosed(err)
}

func monotonicNanoseconds() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return uint64(now.Nano())
}
