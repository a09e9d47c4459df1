package server

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"github.com/nearcall/nearcall/internal/peercred"
	"github.com/nearcall/nearcall/status"
)

// A Peer is the other end of a connection. Immutable.
type Peer struct {
	// Local is set on local sockets; only then the ids are known, from the
	// kernel, as of the time of connecting. The process id is for logs only.
	Local     bool
	UserID    uint32
	GroupID   uint32
	ProcessID int32
	// Address is where the peer connected from; "" on most local sockets.
	Address string
	// Software is what the peer calls itself.
	Software string
}

// identify learns who is at the other end and whether it may be.
func (s *Server) identify(conn net.Conn) (Peer, error) {
	credentials, err := peercred.Get(conn)
	if errors.Is(err, peercred.ErrNotLocal) {
		peer := Peer{Address: conn.RemoteAddr().String()}
		if s.hasAllowLists() {
			return peer, status.Errorf(status.Unauthenticated, "users and groups cannot be told on this transport")
		}
		return peer, nil
	}
	if err != nil {
		return Peer{}, status.Errorf(status.Unauthenticated, "the kernel does not tell who the peer is: %w", err)
	}
	peer := Peer{Local: true, UserID: credentials.UserID, GroupID: credentials.GroupID, ProcessID: credentials.ProcessID}
	return peer, s.admit(conn, &credentials)
}

func (s *Server) hasAllowLists() bool {
	return len(s.config.allowedUsers)+len(s.config.allowedGroups) > 0
}

func (s *Server) admit(conn net.Conn, c *peercred.Credentials) error {
	if slices.Contains(s.config.allowedUsers, c.UserID) {
		return nil
	}
	if c.UserID == peercred.OverflowUserID {
		return denied(c)
	}
	if !s.hasAllowLists() {
		return nil
	}
	if len(s.config.allowedGroups) > 0 {
		if socket, ok := conn.(syscall.Conn); ok {
			// Without supplementary groups the primary group still counts.
			_ = c.LoadGroups(socket)
		}
	}
	if slices.ContainsFunc(s.config.allowedGroups, c.HasGroup) {
		return nil
	}
	return denied(c)
}

func denied(c *peercred.Credentials) error {
	return status.Errorf(status.PermissionDenied, "user id %d may not call this server; ask its operator to admit the user or one of its groups", c.UserID)
}

// String returns the peer for a log line.
func (p Peer) String() string {
	if p.Local {
		return fmt.Sprintf("uid %d pid %d", p.UserID, p.ProcessID)
	}
	return p.Address
}
