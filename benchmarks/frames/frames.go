// Package frames is the smallest caller there can be: it writes and reads frames
// in buffers it keeps, so that what is measured beside it is the server. It
// trusts the server, which no real caller may.
package frames

import (
	"fmt"
	"io"
	"net"

	"github.com/nearcall/nearcall/internal/wire"
)

// A Caller is one connection, used by one goroutine at a time.
type Caller struct {
	connection net.Conn
	callID     uint64
	request    []byte
	reply      []byte
}

// Connect opens a connection and completes the hello.
func Connect(path string) (*Caller, error) {
	connection, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	c := &Caller{connection: connection}
	if err := c.greet(); err != nil {
		connection.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the connection.
func (c *Caller) Close() error { return c.connection.Close() }

func (c *Caller) greet() error {
	hello := wire.Hello{
		VersionMin: wire.Version, VersionMax: wire.Version,
		FrameBytesMax: wire.FrameBytesMax, StreamCreditBytes: wire.StreamCreditBytes,
		Software: "nearcall-benchmarks",
	}
	if _, err := c.connection.Write(hello.Append(nil)); err != nil {
		return err
	}
	var welcome wire.Welcome
	received := make([]byte, 0, wire.HelloBytesMax)
	for {
		n, err := c.connection.Read(received[len(received):cap(received)])
		if err != nil {
			return fmt.Errorf("no welcome: %w", err)
		}
		received = received[:len(received)+n]
		used, err := wire.ParseWelcome(received, &welcome)
		if err != nil {
			return err
		}
		if used > 0 {
			break
		}
	}
	if welcome.Version != wire.Version {
		return fmt.Errorf("refused: %s", welcome.Refusal)
	}
	return nil
}

// Resolve returns the id of a function.
func (c *Caller) Resolve(name string) (uint32, error) {
	frame := wire.Frame{Header: wire.Header{Type: wire.Resolve}, Payload: []byte(name)}
	header, _, err := c.exchange(&frame)
	return header.FunctionID, err
}

// Call calls a function and returns the reply's payload, which is valid until the
// next call. Allocates only until its buffers are large enough.
func (c *Caller) Call(functionID uint32, codec wire.Codec, payload []byte) ([]byte, error) {
	frame := wire.Frame{
		Header:  wire.Header{Type: wire.Request, Codec: codec, FunctionID: functionID},
		Payload: payload,
	}
	_, reply, err := c.exchange(&frame)
	return reply, err
}

func (c *Caller) exchange(frame *wire.Frame) (wire.Header, []byte, error) {
	c.callID++
	frame.CallID = c.callID
	c.request = frame.Append(c.request[:0])
	if _, err := c.connection.Write(c.request); err != nil {
		return wire.Header{}, nil, err
	}
	if err := c.read(0, wire.HeaderBytes); err != nil {
		return wire.Header{}, nil, err
	}
	header := wire.ParseHeader(c.reply)
	if err := c.read(wire.HeaderBytes, int(header.Length)); err != nil {
		return wire.Header{}, nil, err
	}
	payload := c.reply[wire.HeaderBytes+int(header.ExtensionBytes):]
	if header.Type != wire.Reply || header.CallID != frame.CallID {
		return wire.Header{}, nil, fmt.Errorf("call %d was answered by %v of call %d: %q", frame.CallID, header.Type, header.CallID, payload)
	}
	return header, payload, nil
}

// read reads that many bytes to the reply's buffer behind the first have.
func (c *Caller) read(have, bytes int) error {
	if total := have + bytes; total > cap(c.reply) {
		c.reply = append(make([]byte, 0, total), c.reply[:have]...)
	}
	c.reply = c.reply[:have+bytes]
	_, err := io.ReadFull(c.connection, c.reply[have:])
	return err
}
