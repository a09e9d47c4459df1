package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/peercred"
	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/request"
)

// Status asks the resident at this place for its state. The error is ErrNotRunning if
// there is no resident. Nothing is sent to a process of another user.
func (p Place) Status(ctx context.Context) (*Report, error) { return p.ask(ctx, request.Status) }

// Stop tells the resident to finish what runs and then to leave. It returns when the
// resident has said that it will. Errors are those of Status.
func (p Place) Stop(ctx context.Context) (*Report, error) { return p.ask(ctx, request.Stop) }

func (p Place) ask(ctx context.Context, kind request.Kind) (*Report, error) {
	conn, err := dial(ctx, p.Socket)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	text, err := exchange(conn, kind)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: the resident does not answer: %w", p.Name, context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	report, err := parseReport(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return report, nil
}

// dial connects as launchers do: if a path is too long for an address, through the
// descriptor of its directory.
func dial(ctx context.Context, path string) (net.Conn, error) {
	var dialer net.Dialer
	if len(path) < len(syscall.RawSockaddrUnix{}.Path) {
		return dialer.DialContext(ctx, "unix", path)
	}
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	return dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", directory.Fd(), filepath.Base(path)))
}

func exchange(conn net.Conn, kind request.Kind) (report string, err error) {
	peer, err := peercred.Get(conn)
	if err != nil {
		return "", err
	}
	if peer.UserID != uint32(os.Geteuid()) {
		return "", fmt.Errorf("user %d listens there", peer.UserID)
	}
	question, err := request.Request{Header: request.Header{Kind: kind, ProcessID: uint32(os.Getpid())}}.Append(nil)
	if err != nil {
		return "", err
	}
	if _, err := conn.Write(question); err != nil {
		return "", err
	}
	frame, err := channel.ReadFrame(conn)
	switch {
	case err != nil:
		return "", fmt.Errorf("the resident ended before it answered: %w", err)
	case frame.Type != request.Report:
		return "", fmt.Errorf("the resident answered with frame %d and not with a report", frame.Type)
	}
	return frame.Text, nil
}
