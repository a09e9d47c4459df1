package main

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
)

// secureConn is a connection over TLS. What its kernel tells is that of the socket below.
type secureConn struct {
	*tls.Conn
	socket syscall.Conn
}

func (c secureConn) SyscallConn() (syscall.RawConn, error) { return c.socket.SyscallConn() }

// dialSecure connects over TLS. Who the server is does not matter here: vectors are about
// what is inside.
func dialSecure(target string) (net.Conn, error) {
	plain, err := new(net.Dialer).DialContext(context.Background(), "tcp", target)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, NextProtos: []string{"nearcall/1"}})
	if err := conn.Handshake(); err != nil {
		_ = plain.Close()
		return nil, err
	}
	return secureConn{conn, plain.(*net.TCPConn)}, nil
}
