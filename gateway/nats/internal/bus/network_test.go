package bus_test

import (
	"bytes"
	"cmp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nearcall/nearcall/gateway/nats/internal/bus"
	"github.com/nearcall/nearcall/internal/wire"
)

// A network carries messages between hubs of this process as an engine does, each hub's by a
// goroutine of its own.
type network struct {
	mu      sync.Mutex
	members map[string]*member // by the beginning of their subjects
}

// A member is a hub with the messages that are on their way to it.
type member struct {
	network *network
	hub     *bus.Hub

	mu      sync.Mutex
	changed sync.Cond
	queue   []message
	left    bool

	// messageBytes is what a message may carry, or 0 for what the bus takes at most.
	messageBytes atomic.Int64
	largest      atomic.Int64 // message that was published
}

type message struct {
	subject, reply string
	data           []byte
	nobody         bool
}

// join adds a hub, until the test ends.
func (n *network) join(t testing.TB, config bus.Config) *member {
	t.Helper()
	m := &member{network: n}
	m.changed.L = &m.mu
	hub, err := bus.New(config, m)
	if err != nil {
		t.Fatal(err)
	}
	m.hub = hub
	n.mu.Lock()
	if n.members == nil {
		n.members = map[string]*member{}
	}
	n.members[m.prefix()] = m
	n.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.deliver()
	}()
	t.Cleanup(func() {
		hub.Close()
		m.leave()
		<-done
	})
	return m
}

func (m *member) prefix() string { return strings.TrimSuffix(m.hub.Subject(), ">") }

// leave lets the hub vanish, as one whose process was killed.
func (m *member) leave() {
	m.network.mu.Lock()
	delete(m.network.members, m.prefix())
	m.network.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
	m.changed.Signal()
}

func (m *member) put(p message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = append(m.queue, p)
	m.changed.Signal()
}

func (m *member) deliver() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.left {
		for len(m.queue) > 0 && !m.left {
			p := m.queue[0]
			m.queue = m.queue[1:]
			m.mu.Unlock()
			m.hub.Receive(p.subject, p.reply, p.data, p.nobody)
			m.mu.Lock()
		}
		if !m.left {
			m.changed.Wait()
		}
	}
}

// find returns the member to which a subject belongs.
func (n *network) find(subject string) *member {
	parts := strings.SplitAfterN(subject, ".", 4)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.members[strings.Join(parts[:min(3, len(parts))], "")]
}

// Publish implements bus.Medium.
func (m *member) Publish(subject, reply string, data []byte) error {
	for largest := m.largest.Load(); int64(len(data)) > largest && !m.largest.CompareAndSwap(largest, int64(len(data))); largest = m.largest.Load() {
	}
	if to := m.network.find(subject); to != nil {
		to.put(message{subject: subject, reply: reply, data: bytes.Clone(data)})
	} else if back := m.network.find(reply); back == m && reply != "" {
		m.put(message{subject: reply, nobody: true})
	}
	return nil
}

// MessageBytes implements bus.Medium.
func (m *member) MessageBytes() int {
	return cmp.Or(int(m.messageBytes.Load()), wire.BusMessageBytesMax)
}
