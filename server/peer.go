package server

import (
	"errors"
	"net"
	"slices"
	"syscall"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/peercred"
	"github.com/nearcall/nearcall/status"
)

// A Peer is the program that calls. It has the fields and methods of intercept.Peer.
type Peer = intercept.Peer

// identify finds out who is at the other end and whether that peer may connect.
func (s *Server) identify(conn net.Conn) (Peer, error) {
	credentials, err := peercred.Get(conn)
	if errors.Is(err, peercred.ErrNotLocal) {
		peer := Peer{}
		if remote := conn.RemoteAddr(); remote != nil {
			peer.Address = remote.String()
		}
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
			// If the supplementary groups cannot be read, the primary group still
			// counts.
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
