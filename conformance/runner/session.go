package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// session plays the steps of one trial.
type session struct {
	spec   *specification
	vars   *variables
	encode *encoder
	match  *matcher
	peers  map[string]*peer

	dial     func() (net.Conn, error) // side server
	signal   func(name string) error  // side server, own server only
	listener net.Listener             // side caller
	testee   *testee                  // side caller
	connect  object                   // side caller: options of the testee's connection
	pending  chan answer              // side caller: the call that runs
	started  time.Time                // when that call began
	hashes   map[string]any           // side caller: by function, of the descriptions from now on

}

func newSession(spec *specification, t trial) *session {
	vars := newVariables(spec.limits, monotonicNanoseconds)
	for name, value := range t.values {
		vars.set(name, value)
	}
	e := &encoder{spec, vars}
	return &session{
		spec: spec, vars: vars, encode: e, match: &matcher{e},
		peers: map[string]*peer{}, connect: t.Connect, hashes: map[string]any{},
	}
}

// play runs the steps in order and stops at the first that does not hold.
func (s *session) play(steps []object) error {
	defer s.close()
	for i, step := range steps {
		verb, err := stepVerb(step)
		if err == nil {
			err = s.step(verb, step)
		}
		if err != nil {
			return fmt.Errorf("step %d (%s): %w", i+1, verb, err)
		}
	}
	return nil
}

func (s *session) close() {
	for _, p := range s.peers {
		_ = p.conn.Close()
	}
}

func (s *session) step(verb string, step object) error {
	verbs := map[string]func(any, object) error{
		"open":         s.open,
		"send":         s.send,
		"expect":       s.expect,
		"expect_all":   s.expectAll,
		"expect_close": s.expectClose,
		"half_close":   s.halfClose,
		"silence":      s.silence,
		"close":        s.closePeer,
		"signal":       s.sendSignal,
		"accept":       s.accept,
		"call":         s.call,
		"served_call":  s.servedCall,
		"describe":     s.describe,
		"ping":         s.ping,
		"result":       s.result,
	}
	return verbs[verb](step[verb], step)
}

func onName(step object) string {
	if name, ok := step["on"].(string); ok {
		return name
	}
	return "first"
}

// peer gives the connection a step names. To a server it is made at first use.
func (s *session) peer(step object) (*peer, error) {
	name := onName(step)
	if p, ok := s.peers[name]; ok {
		return p, nil
	}
	if s.dial == nil {
		return nil, fmt.Errorf("no connection %q was accepted", name)
	}
	conn, err := s.dial()
	if err != nil {
		return nil, err
	}
	s.peers[name] = newPeer(s.spec, conn)
	return s.peers[name], nil
}

func (s *session) bound(step object, name string, otherwise time.Duration) (time.Duration, error) {
	value, ok := step[name]
	if !ok {
		return otherwise, nil
	}
	number, err := s.vars.number(value)
	return time.Duration(number) * time.Millisecond, err
}

// open exchanges a well-formed hello and welcome, with the members given.
func (s *session) open(value any, step object) error {
	if s.listener != nil {
		return s.openCaller(value, step)
	}
	if err := s.send(object{"hello": value}, object{"on": onName(step)}); err != nil {
		return err
	}
	expected := object{"version": uint64(1), "code": "OK", "instance": object{"not": uint64(0)}, "frame_bytes_max": object{"min": "65536"}}
	if more, ok := step["expect"].(object); ok {
		for name, member := range more {
			expected[name] = member
		}
	}
	return s.expect(object{"welcome": expected}, object{"on": onName(step), "capture": object{
		"welcome.frame_bytes_max": "frame_bytes_max", "welcome.calls_in_flight_max": "calls_in_flight_max",
		"welcome.schema_hash": "schema_hash", "welcome.instance": "instance",
	}})
}

func (s *session) send(value any, step object) error {
	p, err := s.peer(step)
	if err != nil {
		return err
	}
	data, err := s.encode.bytes(value)
	if err != nil {
		return err
	}
	piece := uint64(0)
	if given, ok := step["pieces_bytes"]; ok {
		if piece, err = s.vars.number(given); err != nil {
			return err
		}
	}
	count := uint64(0)
	if given, ok := step["descriptors"]; ok {
		if count, err = s.vars.number(given); err != nil {
			return err
		}
	}
	return s.write(p, data, int(piece), int(count))
}

func (s *session) write(p *peer, data []byte, piece, descriptors int) error {
	if descriptors == 0 {
		return p.write(data, piece, nil)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	numbers := make([]int, descriptors)
	for i := range numbers {
		numbers[i] = int(null.Fd())
	}
	return p.write(data, piece, numbers)
}

// expect reads one message, or exactly the bytes described.
func (s *session) expect(value any, step object) error {
	p, err := s.peer(step)
	if err != nil {
		return err
	}
	bound, err := s.bound(step, "within_ms", answerBound)
	if err != nil {
		return err
	}
	if err := p.startReading(bound); err != nil {
		return err
	}
	kind, expected := messageKind(value)
	got, err := s.read(p, kind, expected)
	if err != nil {
		return fmt.Errorf("expected %s, %w", show(value), err)
	}
	if err := s.compare(kind, expected, got); err != nil {
		return fmt.Errorf("%w; got %s", err, got)
	}
	if err := s.capture(step, got); err != nil {
		return err
	}
	return p.checkTime(bound)
}

func (s *session) compare(kind string, expected any, got received) error {
	if kind == "bytes" {
		return nil // read has compared them
	}
	if members, ok := expected.(object); ok && kind == "request" {
		return s.match.message(without(members, "name"), got)
	}
	return s.match.message(expected, got)
}

func without(members object, name string) object {
	out := object{}
	for key, value := range members {
		if key != name {
			out[key] = value
		}
	}
	return out
}

// messageKind tells {"frame": {...}} and the like from a description of bytes.
func messageKind(value any) (string, any) {
	if d, ok := value.(object); ok && len(d) == 1 {
		for _, kind := range []string{"frame", "hello", "welcome", "simple", "request"} {
			if expected, ok := d[kind]; ok {
				return kind, expected
			}
		}
	}
	return "bytes", value
}

func (s *session) read(p *peer, kind string, expected any) (received, error) {
	switch kind {
	case "frame":
		return p.readFrame()
	case "hello":
		return p.readGreeting(helloLayout)
	case "welcome":
		return p.readGreeting(welcomeLayout)
	case "simple":
		return p.readSimple()
	case "request":
		return s.readRequest(p, expected)
	}
	wanted, err := s.encode.bytes(expected)
	if err != nil {
		return nil, err
	}
	got, err := p.take(len(wanted))
	if err != nil {
		return nil, err
	}
	if string(got) != string(wanted) {
		return nil, fmt.Errorf("got %s", shortHex(got))
	}
	return received{"payload": got}, nil
}

func (s *session) capture(step object, got received) error {
	names, _ := step["capture"].(object)
	for variable, member := range names {
		value, ok := got[fmt.Sprint(member)]
		if !ok {
			return fmt.Errorf("capture: no member %v in %s", member, got)
		}
		s.vars.set(variable, value)
	}
	return nil
}

// expectAll reads as many frames as are described, in any order.
func (s *session) expectAll(value any, step object) error {
	waiting, ok := value.([]any)
	if !ok {
		return errors.New("expect_all needs a list")
	}
	waiting = append([]any(nil), waiting...)
	p, err := s.peer(step)
	if err != nil {
		return err
	}
	bound, err := s.bound(step, "within_ms", answerBound)
	if err != nil {
		return err
	}
	for len(waiting) > 0 {
		if err := p.startReading(bound); err != nil {
			return err
		}
		got, err := p.readFrame()
		if err != nil {
			return fmt.Errorf("expected one of %s, %w", show(waiting), err)
		}
		if waiting, err = s.strike(waiting, got); err != nil {
			return err
		}
	}
	return p.checkTime(bound)
}

func (s *session) strike(waiting []any, got received) ([]any, error) {
	for i, expected := range waiting {
		if s.match.message(expected, got) == nil {
			return append(waiting[:i], waiting[i+1:]...), nil
		}
	}
	return nil, fmt.Errorf("expected one of %s, got %s", show(waiting), got)
}

func (s *session) expectClose(_ any, step object) error {
	p, err := s.peer(step)
	if err != nil {
		return err
	}
	bound, err := s.bound(step, "within_ms", answerBound)
	if err != nil {
		return err
	}
	least, err := s.bound(step, "at_least_ms", 0)
	if err != nil {
		return err
	}
	if err := p.expectClose(bound, step["bytes_before"] == "any"); err != nil {
		return err
	}
	if took := time.Since(p.sent); took < least {
		return fmt.Errorf("the connection ended after %s, %s were expected at least", took, least)
	}
	return nil
}

func (s *session) halfClose(_ any, step object) error {
	p, err := s.peer(step)
	if err != nil {
		return err
	}
	half, ok := p.conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("this kind of connection cannot be closed by half")
	}
	p.sent = time.Now()
	return half.CloseWrite()
}

func (s *session) silence(value any, step object) error {
	p, err := s.peer(step)
	if err != nil {
		return err
	}
	number, err := s.vars.number(value)
	if err != nil {
		return err
	}
	return p.expectSilence(time.Duration(number) * time.Millisecond)
}

func (s *session) closePeer(_ any, step object) error {
	p, err := s.peer(step)
	if err != nil {
		return err
	}
	delete(s.peers, onName(step))
	return p.conn.Close()
}

func (s *session) sendSignal(value any, _ object) error {
	if s.signal == nil {
		return errors.New(`a signal needs "own_server"`)
	}
	return s.signal(fmt.Sprint(value))
}
