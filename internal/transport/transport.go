// Package transport is the contract between a way of moving bytes and those
// who use it. Each transport is a folder beside this file; transporttest holds
// all of them to the contract.
package transport

import (
	"context"
	"errors"
	"io/fs"
	"net"

	"github.com/nearcall/nearcall/internal/address"
)

// ErrDescriptors is returned when descriptors arrived that were not agreed to,
// or did not come with the frame that announced them. They are closed already; the
// connection is to be closed.
var ErrDescriptors = errors.New("nearcall: the peer sent file descriptors, which were not agreed to")

// ErrNotSent is returned by SendDescriptors when the kernel did not let the
// descriptors pass, as for a user who has too many on the way. Nothing was sent;
// the connection is as it was.
var ErrNotSent = errors.New("nearcall: the kernel does not pass on descriptors")

// ErrInUse is returned by Listen when a living server holds the address.
var ErrInUse = errors.New("nearcall: a server is already running on this address")

// A LocalConn is a connection to a process on this machine that can be given
// descriptors. Connections of unixsocket are.
type LocalConn interface {
	net.Conn
	// ReadNow is Read without waiting: 0 and no error mean that nothing is there.
	ReadNow(b []byte) (int, error)
	// ExpectDescriptors sets how many may come along with each later read; at
	// first none. It is for who reads.
	ExpectDescriptors(count int)
	// Received returns the descriptors that came along with the last read, with
	// its last bytes. Where some are expected it is to be asked after every read.
	Received() Descriptors
	// SendDescriptors writes all of b with the descriptors attached to its first
	// byte, or nothing and fails with ErrNotSent. They stay the caller's.
	SendDescriptors(b []byte, descriptors ...int) error
}

// ListenOptions shape a listener. Transports ignore what does not apply.
type ListenOptions struct {
	// Mode of a socket in the file system; 0 means 0660.
	Mode fs.FileMode
	// PassRights lets peers send descriptors from the moment when they connect; otherwise
	// none before the connection expects some, where the kernel can refuse them.
	PassRights bool
	// GroupID that the socket is given to, or -1.
	GroupID int
}

// A Transport makes connections of one kind. Implementations are immutable.
type Transport interface {
	// Listen binds the address. Closing the listener gives the address back
	// and leaves accepted connections open. A dead server's leftovers are
	// replaced; a living one's address fails with ErrInUse.
	Listen(ctx context.Context, a address.Address, options ListenOptions) (net.Listener, error)

	// Dial connects before ctx ends. The connection is a reliable stream with
	// deadlines; its descriptor is close-on-exec.
	Dial(ctx context.Context, a address.Address) (net.Conn, error)

	// Wrap gives an accepted connection this transport's reading rules. It is
	// for listeners that were made elsewhere, such as by socket activation.
	Wrap(conn net.Conn) net.Conn
}
