// Package peercred asks the kernel who is at the other end of a local socket.
package peercred

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// OverflowUserID stands for a user that has no number in this user namespace.
const OverflowUserID = 65534

// ErrNotLocal is returned for connections that have no credentials.
var ErrNotLocal = errors.New("nearcall: the peer is not on a local socket")

// Credentials are those of the process that connected, at that time. The
// process id is for logs only: it may belong to another process by now.
type Credentials struct {
	UserID    uint32
	GroupID   uint32
	ProcessID int32
	// Groups are the supplementary groups; nil when the kernel does not tell.
	Groups []uint32
}

// Get returns the credentials of conn's peer, or ErrNotLocal.
func Get(conn net.Conn) (Credentials, error) {
	socket, ok := conn.(syscall.Conn)
	if !ok || conn.RemoteAddr() == nil || conn.RemoteAddr().Network() != "unix" {
		return Credentials{}, ErrNotLocal
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return Credentials{}, err
	}
	var found Credentials
	var failure error
	err = raw.Control(func(fd uintptr) {
		found, failure = read(int(fd))
	})
	return found, errors.Join(err, failure)
}

func read(fd int) (Credentials, error) {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Credentials{}, os.NewSyscallError("getsockopt(SO_PEERCRED)", err)
	}
	return Credentials{UserID: peer.Uid, GroupID: peer.Gid, ProcessID: peer.Pid}, nil
}

// LoadGroups fills Groups from the kernel (SO_PEERGROUPS, Linux 4.13).
func (c *Credentials) LoadGroups(conn syscall.Conn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Control(func(fd uintptr) {
		c.Groups, failure = peerGroups(int(fd))
	})
	return errors.Join(err, failure)
}

// HasGroup reports whether the peer is in the group.
func (c *Credentials) HasGroup(group uint32) bool {
	if c.GroupID == group {
		return true
	}
	for _, candidate := range c.Groups {
		if candidate == group {
			return true
		}
	}
	return false
}

// String returns the credentials for a log line.
func (c Credentials) String() string {
	return fmt.Sprintf("uid %d gid %d pid %d", c.UserID, c.GroupID, c.ProcessID)
}
