// Command bareserver is the floor that Go sets: it echoes length-prefixed
// messages on a socket with package net and one goroutine a connection, and does
// nothing else.
//
//	bareserver PATH|tcp:HOST:PORT
//	bareserver tls:HOST:PORT CERTIFICATE KEY
package main

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
)

const (
	prefixBytes  = 4
	messageBytes = 64 << 20 // beyond what any row sends; a guard, not a protocol
)

func main() {
	if len(os.Args) != 2 && len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: bareserver PATH|tcp:HOST:PORT\n       bareserver tls:HOST:PORT CERTIFICATE KEY")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "bareserver:", serve(os.Args[1], os.Args[2:]))
	os.Exit(1)
}

// listen returns the listener of an address and the address's scheme. files are those of a
// certificate and its key.
func listen(address string, files []string) (listener net.Listener, scheme string, err error) {
	if port, found := strings.CutPrefix(address, "tcp:"); found {
		listener, err = net.Listen("tcp", port)
		return listener, "tcp", err
	}
	port, found := strings.CutPrefix(address, "tls:")
	if !found {
		listener, err = net.Listen("unix", address)
		return listener, "unix", err
	}
	if len(files) != 2 {
		return nil, "", errors.New("tls needs a certificate and its key")
	}
	pair, err := tls.LoadX509KeyPair(files[0], files[1])
	if err != nil {
		return nil, "", err
	}
	listener, err = tls.Listen("tcp", port, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})
	return listener, "tls", err
}

// serve returns only when it cannot go on.
func serve(address string, files []string) error {
	listener, scheme, err := listen(address, files)
	if err != nil {
		return err
	}
	lent := sync.Pool{New: func() any { return newBuffers() }}
	fmt.Println("ready", scheme+":"+listener.Addr().String())
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer connection.Close()
			b := lent.Get().(*buffers)
			if err := b.echo(connection); err != nil {
				fmt.Fprintln(os.Stderr, "bareserver:", err)
			}
			lent.Put(b)
		}()
	}
}

// The buffers of a connection are another one's before and after: to make them for each
// would be most of what a short connection costs.
type buffers struct {
	reader  *bufio.Reader
	message []byte
}

func newBuffers() *buffers {
	return &buffers{bufio.NewReaderSize(nil, 64<<10), make([]byte, 64<<10)}
}

// echo answers until the peer closes. A small message costs one read and one
// write: anything slower would not be a floor.
func (b *buffers) echo(connection net.Conn) error {
	reader, message := b.reader, b.message
	reader.Reset(connection)
	for {
		if _, err := io.ReadFull(reader, message[:prefixBytes]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		length := binary.BigEndian.Uint32(message)
		if length > messageBytes {
			return fmt.Errorf("a message of %d bytes; at most %d", length, messageBytes)
		}
		total := prefixBytes + int(length)
		if total > len(message) {
			message = append(make([]byte, 0, total), message[:prefixBytes]...)[:total]
			b.message = message
		}
		if _, err := io.ReadFull(reader, message[prefixBytes:total]); err != nil {
			return err
		}
		if _, err := connection.Write(message[:total]); err != nil {
			return err
		}
	}
}
