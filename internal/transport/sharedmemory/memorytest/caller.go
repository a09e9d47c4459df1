// Package memorytest is a caller with shared memory that speaks the wire format
// frame by frame, for tests that say what no client library would.
package memorytest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
)

// ErrNoMemory means that the server does not give shared memory.
var ErrNoMemory = errors.New("the server does not accept shared memory")

// A Caller is a connection with its memory. Used by one goroutine at a time.
type Caller struct {
	Conn    *net.UnixConn
	Welcome wire.Welcome
	LastID  uint64
	Regions *sharedmemory.Regions
	End     *sharedmemory.End
	// Looks is how often TakeFrame looks at the ring before it sleeps.
	Looks int

	parser  wire.Parser
	pending []byte
	record  []byte
	files   []*os.File
}

// Connect connects to a socket, offers shared memory among the features, and
// waits for the welcome. All that is done with the socket ends by the timeout.
func Connect(path string, timeout time.Duration, features wire.Feature) (*Caller, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	c := &Caller{Conn: conn, record: make([]byte, wire.HeaderBytes+wire.FrameBytesMax)}
	if err := errors.Join(conn.SetDeadline(time.Now().Add(timeout)), c.greet(features)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// ConnectWithMemory connects and makes calls of echo until the memory is there.
func ConnectWithMemory(path string, timeout time.Duration) (*Caller, error) {
	c, err := Connect(path, timeout, wire.FeatureSharedClock|wire.FeatureSharedMemory)
	if err != nil {
		return nil, err
	}
	if err := c.Attach(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close closes the connection and unmaps the memory.
func (c *Caller) Close() error {
	failures := []error{c.Conn.Close()}
	if c.Regions != nil {
		failures = append(failures, c.Regions.Close())
	}
	for _, file := range c.files {
		failures = append(failures, file.Close())
	}
	return errors.Join(failures...)
}

// Files are the regions as they came: the caller's, then the server's.
func (c *Caller) Files() []*os.File { return c.files }

func (c *Caller) greet(features wire.Feature) error {
	hello := wire.Hello{
		VersionMin: wire.Version, VersionMax: wire.Version, Offered: features,
		FrameBytesMax: wire.FrameBytesMaxCeiling, ClockNs: monotonic.New().Ns(), Software: "memorytest/1",
	}
	if err := c.Send(hello.Append(nil)); err != nil {
		return err
	}
	for {
		n, err := wire.ParseWelcome(c.pending, &c.Welcome)
		if err != nil {
			return err
		}
		if n > 0 {
			c.pending = c.pending[n:]
			c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling, Features: c.Welcome.Accepted}
			return nil
		}
		if err := c.receive(); err != nil {
			return err
		}
	}
}

// Attach makes calls until MEMORY has come, and maps it. The replies, one for
// each, are dropped.
func (c *Caller) Attach() error {
	if c.Welcome.Accepted&wire.FeatureSharedMemory == 0 {
		return ErrNoMemory
	}
	for range wire.SharedMemoryAfterCalls {
		frame := c.Request("echo", nil)
		if err := c.Send(frame.Append(nil)); err != nil {
			return err
		}
	}
	for answered := 0; c.End == nil || answered < wire.SharedMemoryAfterCalls; {
		frame, err := c.Next()
		switch {
		case err != nil:
			return err
		case frame.Type == wire.Memory:
			if err := c.mapRegions(wire.ParseMemoryOffer(frame.Payload)); err != nil {
				return err
			}
		default:
			answered++
		}
	}
	c.End.Awake()
	return nil
}

func (c *Caller) mapRegions(offer wire.MemoryOffer) error {
	if len(c.files) != wire.MemoryDescriptors {
		return fmt.Errorf("%d descriptors came with MEMORY, want %d", len(c.files), wire.MemoryDescriptors)
	}
	geometry, err := sharedmemory.GeometryOf(offer)
	if err != nil {
		return err
	}
	c.Regions, err = sharedmemory.Attach(geometry, int(c.files[0].Fd()), int(c.files[1].Fd()))
	if err == nil {
		c.End = c.Regions.CallerEnd()
	}
	return err
}

// Request makes a request of a function by name with raw bytes.
func (c *Caller) Request(name string, data []byte) wire.Frame {
	c.LastID++
	frame := wire.Frame{
		Header:     wire.Header{Type: wire.Request, CallID: c.LastID},
		Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, name), Payload: data,
	}
	frame.ExtensionBytes = uint32(len(frame.Extensions))
	frame.Length = uint32(len(frame.Extensions) + len(frame.Payload))
	return frame
}

// Send writes to the socket.
func (c *Caller) Send(data []byte) error {
	_, err := c.Conn.Write(data)
	return err
}

// Put sends a frame as a caller does: through the ring unless the server
// sleeps or there is no room.
func (c *Caller) Put(frame *wire.Frame) error {
	if c.End == nil || c.End.PeerSleeps() || !c.End.Put(&frame.Header, frame.Extensions, frame.Payload) {
		return c.Send(frame.Append(nil))
	}
	if c.End.MustWake() {
		return c.Send((&wire.Header{Type: wire.Wake}).Append(nil))
	}
	return nil
}

// Take waits for a frame in the ring, and for nothing else.
func (c *Caller) Take() (frame wire.Frame, err error) {
	for {
		record, err := c.End.Take(c.record, wire.FrameBytesMaxCeiling, func(n int) []byte { return make([]byte, n) })
		if err != nil {
			return frame, err
		}
		if record != nil {
			parser := wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling}
			_, err = parser.Next(record, &frame)
			return frame, err
		}
		runtime.Gosched() // the server may be of this process
	}
}

// TakeFrame waits for a frame that may come either way.
func (c *Caller) TakeFrame() (wire.Frame, error) {
	if c.End == nil {
		return c.Next()
	}
	for !c.End.Look(c.Looks) && !c.End.Ready() {
		if !c.End.FallAsleep() {
			continue
		}
		frame, err := c.Next()
		c.End.Awake()
		if err != nil || frame.Type != wire.Wake {
			return frame, err
		}
	}
	return c.Take()
}

// Next waits for the next frame of the socket. It is the caller's until the
// next one.
func (c *Caller) Next() (frame wire.Frame, err error) {
	for {
		n, err := c.parser.Next(c.pending, &frame)
		if err != nil {
			return frame, err
		}
		if n > 0 {
			c.pending = c.pending[n:]
			return frame, nil
		}
		if err := c.receive(); err != nil {
			return frame, err
		}
	}
}

// receive reads once. Descriptors that come along are kept.
func (c *Caller) receive() error {
	data, control := make([]byte, 64<<10), make([]byte, syscall.CmsgSpace(4*wire.MemoryDescriptors))
	n, controlBytes, _, _, err := c.Conn.ReadMsgUnix(data, control)
	if err != nil {
		return err
	}
	c.pending = append(c.pending, data[:n]...)
	return c.keepRights(control[:controlBytes])
}

func (c *Caller) keepRights(control []byte) error {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return err
	}
	for i := range messages {
		descriptors, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return err
		}
		for _, fd := range descriptors {
			c.files = append(c.files, os.NewFile(uintptr(fd), "region"))
		}
	}
	return nil
}
