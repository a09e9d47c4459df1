// Package descriptors keeps the open files of one call: those that came with its
// frame, which values take, and those that go with its answer or its request.
//
// A value stands in the payload as the number of its descriptor in the frame;
// that is codec's. How descriptors travel is transport's.
package descriptors

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/wire"
)

// Refusals of values.
var (
	errNone      = errors.New("files and connections travel with calls over a local socket only")
	errNil       = errors.New("the file or connection is nil")
	errUnused    = errors.New("no such descriptor came with the frame, or another value has taken it")
	errTooMany   = fmt.Errorf("more than %d files and connections in one call (limit file_descriptors_per_frame_max, which is fixed)", wire.FileDescriptorsPerFrameMax)
	errNotStream = errors.New("the descriptor is not that of a connected TCP socket")
)

// A Table belongs to one call and is used by one goroutine at a time. A nil one
// has nothing and takes nothing.
type Table struct {
	// CloseGiven: what is given is the call's own, and closed with it.
	CloseGiven bool

	came  []int // gone where a value has taken it
	taken []rights.Open
	going []int
	given []rights.Open
}

// gone is in place of a descriptor that is somebody else's now.
const gone = -1

// Put adds descriptors that came with the frame; they are the table's.
func (t *Table) Put(numbers []int) { t.came = append(t.came, numbers...) }

// GiveFile makes a file one of the descriptors that go with the frame, by a
// duplicate, and returns its number.
func (t *Table) GiveFile(file *os.File) (int, error) {
	if file == nil {
		return 0, errNil
	}
	return t.give(file)
}

// GiveConnection does the same with a connection.
func (t *Table) GiveConnection(connection *net.TCPConn) (int, error) {
	if connection == nil {
		return 0, errNil
	}
	return t.give(connection)
}

func (t *Table) give(from rights.Open) (int, error) {
	switch {
	case t == nil:
		return 0, errNone
	case len(t.going) == wire.FileDescriptorsPerFrameMax:
		return 0, errTooMany
	}
	if t.CloseGiven {
		t.given = append(t.given, from)
	}
	duplicate, err := duplicateOf(from)
	if err != nil {
		return 0, fmt.Errorf("the file or connection cannot be passed on: %w", err)
	}
	t.going = append(t.going, duplicate)
	return len(t.going) - 1, nil
}

// Going returns the descriptors that go with the frame. They are the table's.
func (t *Table) Going() []int {
	if t == nil {
		return nil
	}
	return t.going
}

// Drop closes what goes with the frame: it will not be sent, or again with others.
func (t *Table) Drop() {
	if t == nil {
		return
	}
	rights.Close(t.going...)
	t.going = nil
}

// TakeFile returns a file that came with the frame. It is the table's until
// Release.
func (t *Table) TakeFile(number int) (*os.File, error) {
	descriptor, err := t.take(number)
	if err != nil {
		return nil, err
	}
	// Who has the file closes it by itself, and it may be a socket.
	rights.Disarm(descriptor)
	file, err := rights.NewFile(descriptor, "received")
	if err != nil {
		return nil, fmt.Errorf("the file cannot be used: %w", err)
	}
	t.taken = append(t.taken, file)
	return file, nil
}

// TakeConnection returns a connection that came with the frame, driven by the
// runtime's poller. It is the table's until Release.
func (t *Table) TakeConnection(number int) (*net.TCPConn, error) {
	descriptor, err := t.take(number)
	if err != nil {
		return nil, err
	}
	if !isConnectedStream(descriptor) {
		rights.Close(descriptor)
		return nil, errNotStream
	}
	// The owner of the connection closes it by itself.
	rights.Disarm(descriptor)
	file := os.NewFile(uintptr(descriptor), "received")
	defer rights.CloseOpen(file)
	made, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("the connection cannot be used: %w", err)
	}
	connection, ok := made.(*net.TCPConn)
	if !ok {
		_ = made.Close()
		return nil, errNotStream
	}
	t.taken = append(t.taken, connection)
	return connection, nil
}

func (t *Table) take(number int) (int, error) {
	if t == nil {
		return gone, errNone
	}
	if number < 0 || number >= len(t.came) || t.came[number] == gone {
		return gone, errUnused
	}
	descriptor := t.came[number]
	t.came[number] = gone
	return descriptor, nil
}

// Release leaves what values have taken to those who have the values.
func (t *Table) Release() {
	if t != nil {
		t.taken = nil
	}
}

// Close closes all that the table has. What was written through a file that was
// given is not this side's to flush, so errors of closing mean nothing.
func (t *Table) Close() {
	if t != nil && len(t.came)+len(t.going)+len(t.taken)+len(t.given) > 0 {
		t.closeAll()
	}
}

func (t *Table) closeAll() {
	t.Drop()
	rights.Close(t.came...)
	for _, taken := range t.taken {
		rights.CloseOpen(taken)
	}
	for _, given := range t.given {
		// It may be one of those.
		rights.CloseOpen(given)
	}
	t.came, t.taken, t.given = nil, nil, nil
}
