package resident

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/peercred"
	"github.com/nearcall/nearcall/internal/wire"
)

// A Question is a request that a resident answers with a report.
type Question uint16

const (
	Status Question = 2
	Stop   Question = 3
)

const (
	magic         = "\x8BNCR\r\n\x1a\n"
	version       = 1
	requestBytes  = 48
	headerBytes   = 16
	reportFrame   = 7
	offsetTotal   = 8
	offsetVersion = 12
	offsetKind    = 14
	offsetProcess = 16
)

// ErrNotRunning is returned when nobody listens.
var ErrNotRunning = errors.New("no resident runs")

// A Report is what a resident says of itself.
type Report struct {
	Program   string `json:"program"`
	ProcessID int    `json:"pid"`
	Mode      string `json:"mode"`
	StartedMs int64  `json:"started_ms"`
	IdleMs    int64  `json:"idle_ms"`
	Runs      int64  `json:"runs"`
	Running   int64  `json:"running"`
	Waiting   int64  `json:"waiting"`
	Leaving   bool   `json:"leaving"`
	// Text is the report as it came, with what is not known here.
	Text json.RawMessage `json:"-"`
}

// Started returns when the resident was started.
func (r *Report) Started() time.Time { return time.UnixMilli(r.StartedMs) }

// Ask asks the resident at a place, within the context's deadline. It sends nothing to
// a process of another user.
func Ask(ctx context.Context, place Place, question Question) (*Report, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", place.Socket())
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	text, err := exchange(conn, question)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: the resident does not answer: %w", place.Name, context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place.Name, err)
	}
	report := &Report{Text: text}
	if err := json.Unmarshal(text, report); err != nil {
		return nil, fmt.Errorf("%s: the resident's report cannot be read: %w", place.Name, err)
	}
	return report, nil
}

func exchange(conn net.Conn, question Question) (report []byte, err error) {
	peer, err := peercred.Get(conn)
	if err != nil {
		return nil, err
	}
	if peer.UserID != uint32(os.Geteuid()) {
		return nil, fmt.Errorf("user %d listens there", peer.UserID)
	}
	if _, err := conn.Write(request(question)); err != nil {
		return nil, err
	}
	return readReport(conn)
}

func request(question Question) []byte {
	request := make([]byte, requestBytes)
	copy(request, magic)
	binary.LittleEndian.PutUint32(request[offsetTotal:], requestBytes)
	binary.LittleEndian.PutUint16(request[offsetVersion:], version)
	binary.LittleEndian.PutUint16(request[offsetKind:], uint16(question))
	binary.LittleEndian.PutUint32(request[offsetProcess:], uint32(os.Getpid()))
	return request
}

func readReport(conn io.Reader) ([]byte, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return nil, fmt.Errorf("the resident ended before it answered: %w", err)
	}
	kind, size := binary.LittleEndian.Uint32(header[0:]), binary.LittleEndian.Uint32(header[12:])
	if kind != reportFrame || size > wire.ResidentTextBytesMax {
		return nil, fmt.Errorf("the resident answered with frame %d of %d bytes, not with a report", kind, size)
	}
	text := make([]byte, size)
	_, err := io.ReadFull(conn, text)
	return text, err
}
