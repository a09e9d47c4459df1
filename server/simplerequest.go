package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"
)

// A simpleRequest is a request of the simple protocol.
type simpleRequest struct {
	Function  string
	Arguments json.RawMessage
	TimeoutMs *float64
	// Description is the beginning of the hash of the function's description.
	Description *string
}

// parseSimpleRequest reads an object whose members have exactly these names and occur
// once. Package json alone would accept "F" for "f", and the last of two.
func parseSimpleRequest(message []byte) (*simpleRequest, error) {
	if !utf8.Valid(message) {
		return nil, errors.New("it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(message))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return nil, errors.New("it is not an object")
	}
	r := new(simpleRequest)
	if err := r.readMembers(decoder); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	if r.Function == "" {
		return nil, errors.New(`"f" is missing`)
	}
	return r, nil
}

// readMembers reads the members and the closing bracket.
func (r *simpleRequest) readMembers(decoder *json.Decoder) error {
	var unknown json.RawMessage
	seen := make(map[string]bool, 4)
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		var into any = &unknown
		switch name {
		case "f":
			into = &r.Function
		case "a":
			into = &r.Arguments
		case "t":
			into = &r.TimeoutMs
		case "d":
			into = &r.Description
		}
		if into != &unknown {
			if seen[name.(string)] {
				return fmt.Errorf("%q is there twice", name)
			}
			seen[name.(string)] = true
		}
		if err := decoder.Decode(into); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return err
}

// simpleAheadMax is how many requests are read before the ones in front are answered.
// Together they have at most the bytes of one frame.
const simpleAheadMax = 64

// A simpleQueue holds requests that were read and wait for their turn. One goroutine
// puts them in and one takes them out.
type simpleQueue struct {
	bytesMax int

	// mu protects what follows; changed is signalled when it changes.
	mu       sync.Mutex
	changed  sync.Cond
	messages [][]byte
	bytes    int
	closed   bool
}

func newSimpleQueue(bytesMax int) *simpleQueue {
	q := &simpleQueue{bytesMax: bytesMax}
	q.changed.L = &q.mu
	return q
}

// hasRoom reports whether a message can be put.
func (q *simpleQueue) hasRoom(message []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hasRoomLocked(message)
}

func (q *simpleQueue) hasRoomLocked(message []byte) bool {
	return len(q.messages) == 0 || len(q.messages) < simpleAheadMax && q.bytes+len(message) <= q.bytesMax
}

// awaitRoom waits until a message can be put.
func (q *simpleQueue) awaitRoom(message []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.hasRoomLocked(message) {
		q.changed.Wait()
	}
}

// put adds a message. Preconditions: there is room for it.
func (q *simpleQueue) put(message []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = append(q.messages, message)
	q.bytes += len(message)
	q.changed.Signal()
}

// take waits for a message. After close there is none.
func (q *simpleQueue) take() (message []byte, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.messages) == 0 && !q.closed {
		q.changed.Wait()
	}
	if len(q.messages) == 0 {
		return nil, false
	}
	message = q.messages[0]
	q.messages = q.messages[1:]
	q.bytes -= len(message)
	q.changed.Signal()
	return message, true
}

// close is called when no more messages will be put.
func (q *simpleQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Signal()
}
