package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A watcher is an idle connection to a server, which ends as soon as the server does. It learns what
// the welcome says.
type watcher struct {
	conn    net.Conn
	welcome wire.Welcome
	rest    []byte // what was read behind the welcome
}

// watch connects to the server at a unix: address.
func watch(ctx context.Context, address string) (*watcher, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socketPath(address))
	if err != nil {
		return nil, err
	}
	w := &watcher{conn: conn}
	if err := w.greet(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return w, nil
}

// socketPath returns the path in a unix: address, which may have parameters.
func socketPath(address string) string {
	path, _, _ := strings.Cut(strings.TrimPrefix(address, "unix:"), "?")
	return path
}

func (w *watcher) greet(ctx context.Context) error {
	if deadline, bounded := ctx.Deadline(); bounded {
		_ = w.conn.SetDeadline(deadline)
	}
	defer context.AfterFunc(ctx, func() { _ = w.conn.SetDeadline(time.Unix(1, 0)) })()
	hello := wire.Hello{VersionMin: wire.Version, VersionMax: wire.Version, ProcessID: uint32(os.Getpid()),
		FrameBytesMax: wire.FrameBytesFloor, StreamCreditBytes: wire.StreamCreditBytes, Software: "nearcall gateway"}
	if _, err := w.conn.Write(hello.Append(nil)); err != nil {
		return err
	}
	got := make([]byte, 0, wire.HelloBytesMax)
	for {
		taken, err := wire.ParseWelcome(got, &w.welcome)
		if err != nil {
			return err
		}
		if taken > 0 {
			w.rest = got[taken:]
			break
		}
		n, err := w.conn.Read(got[len(got):cap(got)])
		if err != nil {
			return fmt.Errorf("no welcome has come: %w", err)
		}
		got = got[:len(got)+n]
	}
	if w.welcome.Version == 0 {
		return &status.Error{Code: status.Code(w.welcome.Status), Outcome: status.OutcomeNotExecuted, Message: w.welcome.Refusal}
	}
	return w.conn.SetDeadline(time.Time{})
}

// wait returns when the server stops, or has ended, or ctx ends. It closes the connection.
func (w *watcher) wait(ctx context.Context) (draining bool) {
	defer w.conn.Close()
	defer context.AfterFunc(ctx, func() { w.conn.Close() })()
	parser := wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesFloor, Features: w.welcome.Accepted}
	buffer := append(make([]byte, 0, wire.HelloBytesMax), w.rest...)
	for {
		var frame wire.Frame
		taken, err := parser.Next(buffer, &frame)
		switch {
		case err != nil:
			return false
		case taken > 0 && frame.Type == wire.Drain:
			return true
		case taken > 0:
			buffer = append(buffer[:0], buffer[taken:]...)
			continue
		case len(buffer) == cap(buffer):
			return false
		}
		n, err := w.conn.Read(buffer[len(buffer):cap(buffer)])
		if err != nil && (n == 0 || err != io.EOF) {
			return false
		}
		buffer = buffer[:len(buffer)+n]
	}
}
