package resident_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
)

// Of spec/resident.md, in the test's own words.
const (
	magic       = "\x8bNCR\r\n\x1a\n"
	headerBytes = 48
	frameBytes  = 16
	version     = 1
	kindStatus  = 2
	kindStop    = 3
	typeReport  = 7
)

// An answer is a resident's report.
type answer struct {
	Program string `json:"program"`
	PID     int    `json:"pid"`
	Mode    string `json:"mode"`
	Runs    int    `json:"runs"`
	Running int    `json:"running"`
	Waiting int    `json:"waiting"`
	Leaving bool   `json:"leaving"`
}

// ask asks the resident that listens there for its report, or to stop.
func ask(path string, kind uint16) (a answer, err error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return a, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(settleTimeout)); err != nil {
		return a, err
	}
	request := make([]byte, headerBytes)
	copy(request, magic)
	binary.LittleEndian.PutUint32(request[8:], headerBytes)
	binary.LittleEndian.PutUint16(request[12:], version)
	binary.LittleEndian.PutUint16(request[14:], kind)
	binary.LittleEndian.PutUint32(request[16:], uint32(os.Getpid()))
	if _, err := conn.Write(request); err != nil {
		return a, err
	}
	frame := make([]byte, frameBytes)
	if _, err := io.ReadFull(conn, frame); err != nil {
		return a, err
	}
	text := make([]byte, binary.LittleEndian.Uint32(frame[12:]))
	if _, err := io.ReadFull(conn, text); err != nil {
		return a, err
	}
	if got := binary.LittleEndian.Uint32(frame); got != typeReport {
		return a, fmt.Errorf("a frame of type %d, not a report: %q", got, text)
	}
	return a, json.Unmarshal(text, &a)
}

// socket is that of the program as it is now.
func (p *place) socket() string {
	p.t.Helper()
	names, _ := filepath.Glob(filepath.Join(p.residents(), filepath.Base(p.program)+"-*.sock"))
	if len(names) != 1 {
		p.t.Fatalf("there are %d sockets, not one: %q", len(names), names)
	}
	return names[0]
}

// status is the report of the only resident.
func (p *place) status() answer {
	p.t.Helper()
	a, err := ask(p.socket(), kindStatus)
	must(p.t, err)
	return a
}

// waitIdle waits until no run is left, and returns the report.
func (p *place) waitIdle() (a answer) {
	p.t.Helper()
	processes.WaitFor(p.t, "the runs to end", settleTimeout, func() bool { a = p.status(); return a.Running == 0 })
	return a
}

// waitRuns waits until so many runs have ended and none is left: who supervises them hears
// of a run after its caller did.
func (p *place) waitRuns(count int) (a answer) {
	p.t.Helper()
	processes.WaitFor(p.t, fmt.Sprintf("%d runs", count), settleTimeout, func() bool {
		a = p.status()
		return a.Running == 0 && a.Runs >= count
	})
	return a
}

// expectFiles expects what is in the residents' directory, by the ends of names.
func (p *place) expectFiles(t *testing.T, want string) {
	t.Helper()
	var ends []string
	names, _ := filepath.Glob(filepath.Join(p.residents(), "*"))
	for _, name := range names {
		ends = append(ends, filepath.Ext(name))
	}
	if got := strings.Join(ends, " "); got != want {
		t.Errorf("the residents' directory has %q, not %q", got, want)
	}
}

func itoa(number int) string { return strconv.Itoa(number) }
