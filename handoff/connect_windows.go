package handoff

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/nearcall/nearcall/handoff/internal/channel"
	"github.com/nearcall/nearcall/handoff/internal/pipe"
)

// scheme is the beginning of the address of a named pipe: pipe:NAME is \\.\pipe\NAME.
const scheme = "pipe:"

func pipeName(address string) (string, error) {
	name, found := strings.CutPrefix(address, scheme)
	if !found {
		return "", fmt.Errorf("%w: %s: on Windows an address is pipe:NAME", errors.ErrUnsupported, address)
	}
	return name, nil
}

// connect opens a channel to the process that listens at an address.
func connect(ctx context.Context, address string) (*channel.Channel, Credentials, error) {
	name, err := pipeName(address)
	if err != nil {
		return nil, Credentials{}, err
	}
	conn, err := pipe.Dial(ctx, name)
	if err != nil {
		return nil, Credentials{}, err
	}
	return channelOver(pipeConn{conn, pipeAddr(name)})
}

// channelOver makes a channel of a pipe and takes the pipe over, even if it fails. The
// peer must run as this process's own user: Windows has no numbers by which
// WithPeerUsers could name others.
func channelOver(socket net.Conn) (*channel.Channel, Credentials, error) {
	conn := socket.(pipeConn).Conn
	same, err := conn.IsSameUser()
	if err == nil && !same {
		err = fmt.Errorf("%w: process %d is another user's", os.ErrPermission, conn.Process())
	}
	if err != nil {
		return nil, Credentials{}, errors.Join(err, conn.Close())
	}
	ch, err := channel.Open(conn)
	// The number is what os.Geteuid returns for the user of this process.
	return ch, Credentials{ProcessID: int32(conn.Process()), UserID: uint32(os.Geteuid())}, err
}

// listenAt makes the pipe. While it exists nobody else can have its name.
func listenAt(address string, _ *config) (net.Listener, error) {
	name, err := pipeName(address)
	if err != nil {
		return nil, err
	}
	l, err := pipe.Listen(name)
	if err != nil {
		return nil, err
	}
	return &pipeListener{l, pipeAddr(name)}, nil
}

// These make a pipe fit the interfaces of package net.
type (
	pipeAddr     string
	pipeListener struct {
		*pipe.Listener
		name pipeAddr
	}
	pipeConn struct {
		*pipe.Conn
		name pipeAddr
	}
)

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }

func (l *pipeListener) Addr() net.Addr { return l.name }

func (l *pipeListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return pipeConn{conn, l.name}, nil
}

func (c pipeConn) LocalAddr() net.Addr  { return c.name }
func (c pipeConn) RemoteAddr() net.Addr { return c.name }
