// Package transport is the contract between a way of moving bytes and the code that
// uses it. Each transport is a folder beside this file, and transporttest checks that
// it keeps the contract.
package transport

import (
	"context"
	"errors"
	"io/fs"
	"net"

	"github.com/nearcall/nearcall/internal/address"
)

// ErrDescriptors means that descriptors arrived that were not agreed on, or not with
// the frame that announced them. They are already closed; the connection must be
// closed.
var ErrDescriptors = errors.New("nearcall: the peer sent file descriptors, which were not agreed to")

// ErrNotSent is what SendDescriptors returns if the kernel did not let the descriptors
// pass, for example because the user has too many on the way. Nothing was sent, and the
// connection is as it was.
var ErrNotSent = errors.New("nearcall: the kernel does not pass on descriptors")

// ErrInUse is what Listen returns if a living server has the address.
var ErrInUse = errors.New("nearcall: a server is already running on this address")

// A LocalConn is a connection to a process on this machine over which descriptors can
// be sent. The connections of unixsocket are.
type LocalConn interface {
	net.Conn
	Carrier
	// ReadNow is Read without waiting. 0 without an error means that nothing has
	// arrived.
	ReadNow(b []byte) (int, error)
	// ExpectDescriptors sets how many descriptors may come with each later read; at
	// first none may. Only the reader calls it.
	ExpectDescriptors(count int)
	// Received returns the descriptors that came with the last bytes of the last read.
	// If some are expected it must be called after every read.
	Received() Descriptors
	// SendDescriptors writes all of b with the descriptors attached to its first byte;
	// or it writes nothing and fails with ErrNotSent. The descriptors still belong to
	// the caller.
	SendDescriptors(b []byte, descriptors ...int) error
}

// ListenOptions configure a listener. Transports ignore those that do not apply.
type ListenOptions struct {
	// Mode is the permissions of a socket file; 0 means 0660.
	Mode fs.FileMode
	// PassRights lets peers send descriptors as soon as they connect. Otherwise, if the
	// kernel can refuse descriptors, they may send none before the connection expects
	// some.
	PassRights bool
	// GroupID is the group to which a socket file is given, or -1.
	GroupID int
}

// A Transport makes connections of one kind. Implementations are immutable.
type Transport interface {
	// Listen binds the address. Closing the listener gives the address back and leaves
	// accepted connections open. What a dead server has left behind is replaced; for
	// the address of a living server the error is ErrInUse.
	Listen(ctx context.Context, a address.Address, options ListenOptions) (net.Listener, error)

	// Dial connects before ctx ends. Carry makes an OfferingCarrier of the connection.
	// Its descriptor, if it has one, is close-on-exec.
	Dial(ctx context.Context, a address.Address) (net.Conn, error)

	// Wrap gives an accepted connection this transport's reading rules. It is
	// for listeners that were made elsewhere, such as by socket activation.
	Wrap(conn net.Conn) net.Conn
}
