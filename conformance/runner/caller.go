package main

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// The steps of side "caller": here the runner is the server.

// A callable is a function that the runner pretends to serve.
type callable struct {
	id          uint64
	description object
}

// callables are the functions a vector for callers can name. A caller may ask
// for their descriptions or not; "expect request" answers it either way.
var callables = map[string]callable{
	"echo": {1, object{
		"name": "echo", "doc": "Returns its argument.", "raw": true,
		"params":  []any{object{"name": "data", "type": "bytes"}},
		"results": []any{"bytes"},
	}},
	"identity": {2, object{
		"name": "identity", "doc": "Returns its argument.",
		"params":  []any{object{"name": "value", "type": "any"}},
		"results": []any{"any"},
	}},
}

func callableName(id uint64) string {
	for name, c := range callables {
		if c.id == id {
			return name
		}
	}
	return ""
}

// accept takes the caller's next connection.
func (s *session) accept(_ any, step object) error {
	bound, err := s.bound(step, "within_ms", answerBound)
	if err != nil {
		return err
	}
	local, ok := s.listener.(*net.UnixListener)
	if !ok {
		return errors.New("accept is for side caller")
	}
	if err := local.SetDeadline(time.Now().Add(bound + patience)); err != nil {
		return err
	}
	conn, err := local.Accept()
	if err != nil {
		return fmt.Errorf("the caller did not connect: %w", err)
	}
	name := onName(step)
	if former, ok := s.peers[name]; ok {
		_ = former.conn.Close()
	}
	s.peers[name] = newPeer(s.spec, conn)
	return nil
}

// openCaller accepts, reads the hello and answers with a good welcome.
func (s *session) openCaller(value any, step object) error {
	on := object{"on": onName(step)}
	if err := s.accept(nil, on); err != nil {
		return err
	}
	expected := object{
		"version_min": object{"max": "1"}, "version_max": object{"min": "1"},
		"frame_bytes_max": object{"min": "65536"}, "reserved_52": uint64(0), "reserved_56": uint64(0),
		"features_required": uint64(0),
	}
	if more, ok := step["expect"].(object); ok {
		for name, member := range more {
			expected[name] = member
		}
	}
	if err := s.expect(object{"hello": expected}, object{"on": onName(step), "capture": object{
		"hello.frame_bytes_max": "frame_bytes_max",
	}}); err != nil {
		return err
	}
	return s.send(object{"welcome": value}, on)
}

// readRequest reads up to the next REQUEST and answers each RESOLVE before it.
func (s *session) readRequest(p *peer, expected any) (received, error) {
	for {
		got, err := p.readFrame()
		if err != nil {
			return nil, err
		}
		switch got["type"] {
		case "RESOLVE":
			err = s.answerResolve(p, got)
		case "REQUEST":
			return got, s.noteRequest(expected, got)
		default:
			err = fmt.Errorf("got %s", got)
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *session) answerResolve(p *peer, got received) error {
	name := string(got["payload"].([]byte))
	c, ok := callables[name]
	if !ok {
		return fmt.Errorf("the caller asks for %q, which no vector serves", name)
	}
	reply, err := s.encode.frame(object{
		"type": "REPLY", "call_id": got["call_id"], "function_id": c.id,
		"codec": "msgpack", "payload": object{"msgpack": s.described(name, c.description)},
	}, nil)
	if err != nil {
		return err
	}
	return p.write(reply, 0, nil)
}

// noteRequest sets the variables that "reply" uses.
func (s *session) noteRequest(expected any, got received) error {
	name := callableName(got["function_id"].(uint64))
	if got["function_id"] == uint64(0) {
		name = extensionText(got, 0x8001)
	}
	wanted, _ := expected.(object)
	if name == "" || wanted["name"] != nil && wanted["name"] != name {
		return fmt.Errorf("got a request for %q: %s", name, got)
	}
	s.vars.set("request.call_id", got["call_id"])
	s.vars.set("request.function", callables[name].id)
	s.vars.set("request.codec", got["codec"])
	s.vars.set("request.payload", got["payload"])
	echo, err := echoPayload(got)
	s.vars.set("request.echo", echo)
	return err
}

func extensionText(got received, number uint64) string {
	for _, entry := range got["extensions"].([]any) {
		if pair := entry.([]any); pair[0] == number {
			return pair[1].(string)
		}
	}
	return ""
}

// echoPayload is the result of a function that returns its only argument.
func echoPayload(got received) ([]byte, error) {
	payload := got["payload"].([]byte)
	if got["codec"] != "msgpack" {
		return payload, nil
	}
	value, err := decodeMsgpack(payload)
	if list, ok := value.([]any); err != nil || !ok || len(list) != 1 {
		return nil, fmt.Errorf("the arguments %s are no array of one value (%v)", shortHex(payload), err)
	}
	return payload[1:], nil
}

// call starts a call of the testee; "result" waits for it.
func (s *session) call(value any, _ object) error {
	members, ok := value.(object)
	if !ok {
		return errors.New("call needs an object")
	}
	command := object{"do": "call", "name": members["name"], "timeout_ms": 2000}
	if given, ok := members["timeout_ms"]; ok {
		command["timeout_ms"] = given
	}
	if err := s.addArguments(command, members); err != nil {
		return err
	}
	return s.begin(command)
}

func (s *session) addArguments(command, members object) error {
	if arguments, ok := members["arguments"]; ok {
		encoded, err := s.encode.bytes(object{"msgpack": arguments})
		command["codec"], command["arguments"] = "msgpack", arguments
		command["payload_hex"] = fmt.Sprintf("%x", encoded)
		return err
	}
	data, err := s.encode.bytes(members["bytes"])
	command["codec"], command["payload_hex"] = "raw", fmt.Sprintf("%x", data)
	return err
}

func (s *session) ping(value any, _ object) error {
	command := object{"do": "ping", "timeout_ms": 2000}
	if members, ok := value.(object); ok && members["timeout_ms"] != nil {
		command["timeout_ms"] = members["timeout_ms"]
	}
	return s.begin(command)
}

func (s *session) begin(command object) error {
	if s.pending != nil {
		return errors.New("the testee does one thing at a time: wait for its result first")
	}
	s.started = time.Now()
	s.pending = s.testee.begin(command)
	return nil
}

// result waits for what the testee says of the call.
func (s *session) result(value any, step object) error {
	if s.pending == nil {
		return errors.New("no call was begun")
	}
	bound, err := s.bound(step, "within_ms", 3*time.Second)
	if err != nil {
		return err
	}
	least, err := s.bound(step, "at_least_ms", 0)
	if err != nil {
		return err
	}
	got, err := s.testee.wait(s.pending, bound+patience)
	s.pending = nil
	if err != nil {
		return err
	}
	if err := s.compareResult(value, got); err != nil {
		return fmt.Errorf("%w; got %s", err, received(got))
	}
	took := time.Since(s.started)
	if took < least {
		return fmt.Errorf("the call ended after %s, %s were expected at least", took, least)
	}
	if took > bound {
		return &lateError{took, bound}
	}
	return nil
}

func (s *session) compareResult(expected any, got object) error {
	members, ok := expected.(object)
	if !ok {
		return errors.New("result needs an object")
	}
	r := received(got)
	if text, ok := got["payload_hex"].(string); ok {
		payload, err := decodeHex(text)
		if err != nil {
			return err
		}
		r = received(without(object(got), "payload_hex"))
		r["payload"] = payload
	}
	for name, value := range members {
		var err error
		_, decoded := r["value"]
		if name == "value" && decoded {
			err = s.match.value(name, value, r["value"])
		} else {
			err = s.match.member(name, value, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// servedCall is one whole good call: the testee must still be able to do it.
func (s *session) servedCall(_ any, step object) error {
	on := object{"on": onName(step)}
	if err := s.call(object{"name": "echo", "bytes": object{"text": "are you well?"}}, nil); err != nil {
		return err
	}
	if _, ok := s.peers[onName(step)]; !ok {
		if err := s.openCaller(object{}, on); err != nil {
			return err
		}
	}
	if err := s.expect(object{"request": object{"name": "echo"}}, on); err != nil {
		return err
	}
	if err := s.send(object{"reply": object{"payload": "$request.echo"}}, on); err != nil {
		return err
	}
	return s.result(object{"ok": true, "payload": object{"text": "are you well?"}}, object{})
}
