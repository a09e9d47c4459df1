// Command bareserver is the floor that Go sets: it echoes length-prefixed
// messages on a socket with package net and one goroutine a connection, and does
// nothing else.
//
//	bareserver PATH|tcp:HOST:PORT
package main

import (
	"bufio"
	"encoding/binary"
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
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bareserver PATH|tcp:HOST:PORT")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "bareserver:", serve(os.Args[1]))
	os.Exit(1)
}

// serve returns only when it cannot go on.
func serve(address string) error {
	network, target := "unix", address
	if port, isTCP := strings.CutPrefix(address, "tcp:"); isTCP {
		network, target = "tcp", port
	}
	listener, err := net.Listen(network, target)
	if err != nil {
		return err
	}
	lent := sync.Pool{New: func() any { return newBuffers() }}
	fmt.Println("ready", network+":"+listener.Addr().String())
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
