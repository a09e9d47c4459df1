package handoff_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/nearcall/nearcall/handoff"
	"github.com/nearcall/nearcall/handoff/internal/frame"
	"github.com/nearcall/nearcall/handoff/internal/pipe"
)

// handlesMost is above the handles that the test program can have.
const handlesMost = 1 << 14

// diskFiles returns how many files this process has open.
func diskFiles() (open int) {
	for handle := windows.Handle(4); handle < handlesMost; handle += 4 {
		if kind, err := windows.GetFileType(handle); err == nil && kind == windows.FILE_TYPE_DISK {
			open++
		}
	}
	return open
}

// What could not be sent to a process that does not read is not left open there. The
// process is the test's own.
func TestFilesThatCannotBeSentAreClosedThere(t *testing.T) {
	const gifts = 5
	address := newAddress(t)
	listener, err := pipe.Listen(strings.TrimPrefix(address, "pipe:"))
	must(t, err)
	defer func() { _ = listener.Close() }()
	done := make(chan struct{})
	defer close(done)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		hello := frame.Hello{Lowest: 1, Highest: 1, Takes: frame.TakesFiles, Window: 64, MessageBytesMax: 1 << 20}
		_, err = io.ReadFull(conn, make([]byte, frame.HelloBytes))
		if _, writeErr := conn.Write(hello.Append(nil)); err != nil || writeErr != nil {
			t.Error(err, writeErr)
		}
		<-done
	}()
	p := dial(t, address)
	file, err := os.CreateTemp("", "nearcall-test-*")
	must(t, err)
	defer func() { _, _ = file.Close(), os.Remove(file.Name()) }()
	before := diskFiles()
	if before == 0 {
		t.Fatal("no file is counted")
	}
	for range gifts {
		// More than the pipe holds.
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := p.SendFile(ctx, file, handoff.Meta{Message: make([]byte, 1<<20)})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) && p.Err() == nil {
			t.Errorf("given to one that does not read: %v", err)
		}
	}
	if after := diskFiles(); after > before {
		t.Errorf("%d files are open, %d were before", after, before)
	}
}
