package main

import (
	"fmt"
	"sort"
	"sync"
	"time"
)

// canary is a well-behaved client beside the misbehaving ones. Its connection
// lives as long as the server; every call must be answered, and soon.
type canary struct {
	session *session
	peer    *peer
	callID  uint64
}

func newCanary(spec *specification, server *serverProcess) (*canary, error) {
	s := newSession(spec, trial{vector: &vector{}})
	s.dial = server.dial
	if err := s.open(object{}, object{}); err != nil {
		return nil, fmt.Errorf("canary: %w", err)
	}
	p, err := s.peer(object{})
	return &canary{session: s, peer: p}, err
}

// call makes one echo call and returns how long it took.
func (c *canary) call() (time.Duration, error) {
	c.callID++
	payload := object{"text": fmt.Sprintf("canary %d", c.callID)}
	begin := time.Now()
	if err := c.session.send(object{"frame": object{
		"type": "REQUEST", "call_id": c.callID, "payload": payload,
		"extensions": []any{[]any{"0x8001", "echo"}},
	}}, object{}); err != nil {
		return 0, fmt.Errorf("canary: %w", err)
	}
	err := c.session.expect(object{"frame": object{
		"type": "REPLY", "call_id": c.callID, "payload": payload,
	}}, object{})
	took := time.Since(begin)
	if err != nil {
		return took, fmt.Errorf("canary: a well-behaved client beside is not served: %w", err)
	}
	return took, nil
}

// stats are the server's own counters, from the built-in function. overtaken
// says that the pong to a ping behind the request came first: then the function
// ran in a goroutine of its own.
func (c *canary) stats() (members object, overtaken bool, err error) {
	c.callID++
	request := object{"frame": object{
		"type": "REQUEST", "call_id": c.callID, "codec": "msgpack", "payload": "90",
		"extensions": []any{[]any{"0x8001", "nearcall.stats"}},
	}}
	ping := object{"frame": object{"type": "PING"}}
	if err := c.session.send([]any{request, ping}, object{}); err != nil {
		return nil, false, err
	}
	if err := c.peer.startReading(answerBound); err != nil {
		return nil, false, err
	}
	var frames [2]received
	for i := range frames {
		if frames[i], err = c.peer.readFrame(); err != nil {
			return nil, false, err
		}
	}
	overtaken = frames[0]["type"] == "PONG"
	if overtaken {
		frames[0] = frames[1]
	}
	members, err = statsOf(frames[0])
	return members, overtaken, err
}

func statsOf(reply received) (object, error) {
	text, err := decodeMsgpack(reply["payload"].([]byte))
	if err != nil {
		return nil, err
	}
	value, err := decodeJSON([]byte(fmt.Sprint(text)))
	members, ok := value.(object)
	if err == nil && !ok {
		err = fmt.Errorf("nearcall.stats returned %s", show(value))
	}
	return members, err
}

func (c *canary) close() { c.session.close() }

// watch calls all the time until stopped, and keeps the times.
type watch struct {
	canary *canary
	stop   chan struct{}
	done   sync.WaitGroup
	times  []time.Duration
	err    error
}

func startWatch(c *canary) *watch {
	w := &watch{canary: c, stop: make(chan struct{})}
	w.done.Go(func() {
		for {
			select {
			case <-w.stop:
				return
			case <-time.After(time.Millisecond):
			}
			took, err := c.call()
			if err != nil {
				w.err = err
				return
			}
			w.times = append(w.times, took)
		}
	})
	return w
}

// finish returns how many calls were made and their median, 99th and slowest.
// It fails when a call did, or when the 99th took longer than the bound.
func (w *watch) finish(bound time.Duration) (string, error) {
	close(w.stop)
	w.done.Wait()
	if w.err != nil || len(w.times) == 0 {
		return "", fmt.Errorf("after %d calls: %w", len(w.times), w.err)
	}
	sort.Slice(w.times, func(i, j int) bool { return w.times[i] < w.times[j] })
	at := func(part float64) time.Duration {
		return w.times[int(part*float64(len(w.times)-1))].Round(time.Microsecond)
	}
	var err error
	if at(0.99) > bound {
		err = fmt.Errorf("the client beside is disturbed: p99 %s, bound %s", at(0.99), bound)
	}
	return fmt.Sprintf("%d calls, p50 %s, p99 %s, slowest %s", len(w.times), at(0.5), at(0.99), at(1)), err
}
