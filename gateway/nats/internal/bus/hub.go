// Package bus carries connections over the messages of an engine such as NATS. A Hub is one end
// of the bus. It dials servers at other hubs and listens for connections from them. Its
// connections are carriers (package transport), over which the ordinary protocol of Nearcall
// travels: nothing here knows of calls. spec/bus.md describes the messages.
package bus

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/wire"
)

// A Medium publishes messages. It must keep the order of messages that are published to the same
// subject one after the other, and should not wait. If it returns an error, the message was not
// sent and never will be. It must not keep the message.
type Medium interface {
	Publish(subject, reply string, message []byte) error
	// MessageBytes returns how many bytes of a connection a message may carry now. It is below 1 if
	// the medium takes no message that is large enough for any.
	MessageBytes() int
}

// A Config says how a Hub works.
type Config struct {
	// Prefix is the beginning of all subjects: "nearcall" if it is "".
	Prefix string
	// Name is what other hubs are told that this one is called, for their logs.
	Name string
	// WindowBytes is how much may be on the way in each direction of a connection: limit
	// bus_window_bytes, which is also what 0 stands for.
	WindowBytes int
	// MessageBytes bounds the bytes in a message, besides what the bus adds to them: limit
	// bus_message_bytes_max, which is also what 0 stands for. What the medium takes bounds them as
	// well.
	MessageBytes int
	// Now is a clock that never goes back, in milliseconds: the system's if it is nil.
	Now func() uint64
}

func (c *Config) complete() error {
	c.Prefix = cmp.Or(c.Prefix, "nearcall")
	c.WindowBytes = cmp.Or(c.WindowBytes, wire.BusWindowBytes)
	c.MessageBytes = cmp.Or(c.MessageBytes, wire.BusMessageBytesMax)
	if c.Now == nil {
		clock := monotonic.New()
		c.Now = func() uint64 { return clock.Ms() }
	}
	switch {
	case strings.ContainsAny(c.Prefix, " \t\r\n*>") || strings.HasPrefix(c.Prefix, ".") || strings.HasSuffix(c.Prefix, ".") || strings.Contains(c.Prefix, ".."):
		return fmt.Errorf("prefix %q of subjects: words with dots between them", c.Prefix)
	case len(c.Name) > nameBytesMax:
		return fmt.Errorf("a name of %d bytes: at most %d travel", len(c.Name), nameBytesMax)
	case c.WindowBytes < windowBytesMin || c.WindowBytes > wire.BusWindowBytesCeiling:
		return fmt.Errorf("a window of %d bytes: limit bus_window_bytes is %d to %d", c.WindowBytes, windowBytesMin, wire.BusWindowBytesCeiling)
	case c.MessageBytes < 1 || c.MessageBytes > wire.BusMessageBytesMax:
		return fmt.Errorf("messages of %d bytes: limit bus_message_bytes_max is 1 to %d", c.MessageBytes, wire.BusMessageBytesMax)
	}
	return nil
}

// ErrClosed is what Dial and Accept return when the hub was closed.
var ErrClosed = errors.New("the hub of the message bus was closed")

// A Hub is one end of the bus. Its methods may be called by any number of goroutines.
type Hub struct {
	config   Config
	medium   Medium
	instance string
	subjects subjects
	messages messagePool
	detach   func() // takes the hub from its medium when it is closed, or nil
	// These belong to Receive: messages whose streams are not there, and connections that are refused.
	strangers, refused answers

	// mu protects what follows. No other lock is taken while it is held.
	mu        sync.Mutex
	streams   map[string]*stream
	ofPeer    map[string]int // how many streams there are with a hub
	listeners map[string]*listener
	ticking   bool
	closed    bool
}

// New returns a hub that publishes by a medium. All messages that are published to Subject must be
// given to Receive.
func New(config Config, medium Medium) (*Hub, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("message bus: %w", err)
	}
	return &Hub{config: config, medium: medium, instance: newID(), subjects: subjectsOf(config.Prefix),
		streams: map[string]*stream{}, ofPeer: map[string]int{}, listeners: map[string]*listener{}}, nil
}

// Instance is the name by which other hubs dial this one. No other hub has it, and no later one
// will.
func (h *Hub) Instance() string { return h.instance }

// Subject is what the hub has to be subscribed to.
func (h *Hub) Subject() string { return h.subjects.of(h.instance) + ">" }

// Receive takes a message that was published to a subject, with the subject that its sender wants
// answers at. nobody is set if it is the engine's answer that a message of this hub met nobody.
// The message belongs to the hub. Receive must be called by one goroutine at a time, in the order
// in which messages come.
func (h *Hub) Receive(subject, reply string, message []byte, nobody bool) {
	rest, ours := strings.CutPrefix(subject, h.subjects.of(h.instance))
	to, ok := parsePlace(rest)
	if !ours || !ok {
		return
	}
	s := h.find(to.stream)
	if to.about != "" {
		if s != nil && nobody {
			s.nobody(to.offset())
		}
		return
	}
	head, payload, err := parse(message)
	if err != nil {
		return
	}
	from, known := h.subjects.originOf(reply)
	switch {
	case head.kind == kindOpen && known:
		// It is for the hub, and names the stream of its sender.
		h.accept(head, payload, from)
	case s != nil:
		s.receive(head, payload, from)
	case !known || head.kind == kindReset || !h.strangers.mayAnswer(h.config.Now()):
	default:
		h.refuse(from, noEnd, "there is no such stream")
	}
}

// answers count refusals. Each waits for the engine, and everybody's messages wait meanwhile, so that
// only so many are sent in a second. The others find out by asking again, or by the time that it takes.
type answers struct {
	sinceMs  uint64
	answered int
}

// mayAnswer reports whether one more is answered.
func (s *answers) mayAnswer(nowMs uint64) bool {
	if nowMs-s.sinceMs >= 1000 {
		s.sinceMs, s.answered = nowMs, 0
	}
	s.answered++
	return s.answered <= strangersPerSecond
}

// turnAway refuses a connection, unless too many are.
func (h *Hub) turnAway(to origin, reason string) {
	if h.refused.mayAnswer(h.config.Now()) {
		h.refuse(to, 0, reason)
	}
}

// refuse tells a sender that its stream has no other end. read is how much of it was read, or
// noEnd if that is not known any more.
func (h *Hub) refuse(to origin, read uint64, reason string) {
	head := header{kind: kindReset, sentMs: uint32(h.config.Now()), offset: read, room: noEnd}
	// If the engine does not take it, the sender finds out by asking.
	_ = h.medium.Publish(h.subjects.at(to), "", append(head.append(nil), cutReason(reason)...))
}

func (h *Hub) find(stream string) *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams[stream]
}

// enter makes a stream with a peer, unless there are too many.
func (h *Hub) enter(peer origin) (*stream, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, ErrClosed
	case len(h.streams) >= wire.BusStreamsMax:
		return nil, fmt.Errorf("%d connections of the message bus are open (limit bus_streams_max)", len(h.streams))
	case h.ofPeer[peer.instance] >= wire.BusStreamsPerPeerMax:
		return nil, fmt.Errorf("%d connections of the message bus are open with this peer (limit bus_streams_per_peer_max)", h.ofPeer[peer.instance])
	}
	s := newStream(h, peer, h.windowLocked())
	h.streams[s.own.stream] = s
	h.ofPeer[peer.instance]++
	if !h.ticking {
		h.ticking = true
		go h.tick()
	}
	return s, nil
}

// windowLocked returns the window of one more stream.
func (h *Hub) windowLocked() uint64 {
	window := h.config.WindowBytes
	if more := len(h.streams) + 1; more > streamsAtFullWindow {
		window = max(window*streamsAtFullWindow/more, windowBytesMin)
	}
	return uint64(window)
}

// forget removes a stream that has ended.
func (h *Hub) forget(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams[s.own.stream] != s {
		return
	}
	delete(h.streams, s.own.stream)
	if h.ofPeer[s.peer.instance]--; h.ofPeer[s.peer.instance] == 0 {
		delete(h.ofPeer, s.peer.instance)
	}
}

// tick looks at all streams now and then, for as long as there are any.
func (h *Hub) tick() {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for range ticker.C {
		all := h.all()
		if len(all) == 0 && h.endTicking() {
			return
		}
		nowMs := h.config.Now()
		for _, s := range all {
			s.look(nowMs)
		}
	}
}

// all returns the streams.
func (h *Hub) all() (all []*stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.streams {
		all = append(all, s)
	}
	return all
}

// endTicking notes that nobody looks at streams any more, if there are still none.
func (h *Hub) endTicking() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ticking = len(h.streams) > 0
	return !h.ticking
}

// endAgain sends END again if this side's stream has ended. An END takes no place in the stream, so that
// nobody would miss one that was lost: it comes again with every question, answer and credit.
func (s *stream) endAgain() {
	s.mu.Lock()
	var end header
	if s.finished && !s.closed && s.failure == nil {
		end = s.headerLocked(kindEnd)
	}
	s.mu.Unlock()
	if end.kind != 0 {
		s.say(end, nil)
	}
}

// look asks about a stream of which nothing is heard, or gives it up.
func (s *stream) look(nowMs uint64) {
	s.mu.Lock()
	silent := s.opened && s.times.silent(nowMs)
	due := s.opened && !s.closed && s.failure == nil && s.times.probeDue(nowMs, s.dialled || s.finished)
	s.mu.Unlock()
	switch {
	case silent:
		s.fail(lostf("nothing was heard from the other end for %d s", silenceMs/1000), 0, false)
	case due:
		s.endAgain()
		s.probe(kindProbe)
	}
}

// Lost ends all connections, because the hub has lost the engine. Those that are made later use
// the engine when it is there again.
func (h *Hub) Lost(cause error) {
	text := "the connection to the engine was lost"
	if cause != nil {
		text += ": " + cause.Error()
	}
	for _, s := range h.all() {
		s.fail(&Lost{text}, 0, false)
	}
}

// Close ends all connections and listeners.
func (h *Hub) Close() {
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	var listeners []*listener
	for _, l := range h.listeners {
		listeners = append(listeners, l)
	}
	h.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	for _, s := range h.all() {
		s.close()
	}
	if first && h.detach != nil {
		h.detach()
	}
}

// Streams returns how many connections are open.
func (h *Hub) Streams() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams)
}

// A messagePool has memory in which messages are put together.
type messagePool struct{ pool sync.Pool }

func (p *messagePool) get() *[]byte {
	if message, ok := p.pool.Get().(*[]byte); ok {
		return message
	}
	return new([]byte)
}

func (p *messagePool) put(message *[]byte) { p.pool.Put(message) }
