package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// patience is how long the runner waits beyond a bound before it calls an
// answer missing and not late.
const patience = 3 * time.Second

// answerBound holds where a vector names none.
const answerBound = 2 * time.Second

// peer is one connection of a vector, to a server or from a caller.
type peer struct {
	spec *specification
	conn net.Conn
	in   *bufio.Reader
	sent time.Time // when the last step that made the other side act began
}

func newPeer(spec *specification, conn net.Conn) *peer {
	return &peer{spec: spec, conn: conn, in: bufio.NewReader(conn), sent: time.Now()}
}

// lateError is an answer that was right and came too late. Such a trial is
// repeated, for on a loaded machine the runner itself may have been late.
type lateError struct {
	took, bound time.Duration
}

func (e *lateError) Error() string {
	return fmt.Sprintf("right, but after %.1f ms; %d ms are allowed", float64(e.took.Microseconds())/1000, e.bound.Milliseconds())
}

func (p *peer) checkTime(bound time.Duration) error {
	if took := time.Since(p.sent); took > bound {
		return &lateError{took, bound}
	}
	return nil
}

func (p *peer) startReading(bound time.Duration) error {
	return p.conn.SetReadDeadline(time.Now().Add(bound + patience))
}

// write sends in pieces of that many bytes, each after the other side has read
// the one before; 0 sends all at once. A connection that the other side has
// closed meanwhile is no failure here: what follows in the vector says whether
// it should have been.
func (p *peer) write(data []byte, piece int, descriptors []int) error {
	p.sent = time.Now()
	if err := p.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if len(descriptors) > 0 {
		return sendDescriptors(p.conn, data, descriptors)
	}
	for len(data) > 0 {
		count := len(data)
		if piece > 0 && piece < count {
			count = piece
		}
		if _, err := p.conn.Write(data[:count]); err != nil {
			return ignoreClosed(err)
		}
		data = data[count:]
		if piece > 0 && len(data) > 0 {
			if err := waitUntilRead(p.conn); err != nil {
				return err
			}
		}
		p.sent = time.Now()
	}
	return nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return err
}

func (p *peer) take(count int) ([]byte, error) {
	out := make([]byte, count)
	if _, err := io.ReadFull(p.in, out); err != nil {
		return nil, describeReadError(err)
	}
	return out, nil
}

func describeReadError(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return errors.New("got the end of the connection")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("got the end of the connection within a message")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("got nothing")
	}
	return err
}

func (p *peer) readFrame() (received, error) {
	header, err := p.take(frameLayout.bytes)
	if err != nil {
		return nil, err
	}
	numbers := frameLayout.decode(header)
	if numbers["length"] > p.spec.limits["frame_bytes_max"] || numbers["extension_bytes"] > numbers["length"] {
		return nil, fmt.Errorf("got an illegal frame: header %x", header)
	}
	body, err := p.take(int(numbers["length"]))
	if err != nil {
		return nil, err
	}
	r, err := p.spec.describeFrame(numbers, body)
	if err != nil {
		return nil, fmt.Errorf("got %s: %w", r, err)
	}
	return r, nil
}

// readGreeting reads a hello or welcome.
func (p *peer) readGreeting(l layout) (received, error) {
	whole, err := p.take(l.bytes)
	if err != nil {
		return nil, err
	}
	total := l.decode(whole)["total_bytes"]
	if total < uint64(l.bytes) || total > p.spec.limits["hello_bytes_max"] {
		return nil, fmt.Errorf("got a greeting of %d bytes: %x", total, whole)
	}
	rest, err := p.take(int(total) - l.bytes)
	if err != nil {
		return nil, err
	}
	return p.spec.describeGreeting(l, append(whole, rest...))
}

func (p *peer) readSimple() (received, error) {
	head, err := p.take(4)
	if err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head)
	if uint64(length) > p.spec.limits["frame_bytes_max"] {
		return nil, fmt.Errorf("got a simple answer of %d bytes", length)
	}
	text, err := p.take(int(length))
	if err != nil {
		return nil, err
	}
	value, err := decodeJSON(text)
	if err != nil {
		return nil, fmt.Errorf("got %q: %w", text, err)
	}
	members, ok := value.(object)
	if !ok {
		return nil, fmt.Errorf("got %s, not an object", text)
	}
	return received(members), nil
}

// expectClose waits for the end of the connection; a byte before it is a
// failure unless bytes may come.
func (p *peer) expectClose(bound time.Duration, bytesMayCome bool) error {
	if err := p.startReading(bound); err != nil {
		return err
	}
	if bytesMayCome {
		if _, err := io.Copy(io.Discard, p.in); ignoreClosed(err) != nil {
			return fmt.Errorf("expected the end of the connection within %s: %w", bound, err)
		}
		return p.checkTime(bound)
	}
	var one [1]byte
	n, err := io.ReadFull(p.in, one[:])
	switch {
	case n > 0:
		return fmt.Errorf("expected the end of the connection, got byte %#02x", one[0])
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return p.checkTime(bound)
	}
	return fmt.Errorf("expected the end of the connection within %s, %w", bound, describeReadError(err))
}

// expectSilence makes sure that for a time nothing comes and nothing ends.
func (p *peer) expectSilence(duration time.Duration) error {
	if err := p.conn.SetReadDeadline(time.Now().Add(duration)); err != nil {
		return err
	}
	_, err := p.in.Peek(1)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("expected %s of silence, %w", duration, describeReadError(err))
	}
	waiting, _ := p.in.Peek(p.in.Buffered())
	return fmt.Errorf("expected %s of silence, got %s", duration, shortHex(waiting))
}
