package backend

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
	"github.com/nearcall/nearcall/handoff"
)

// Timeouts may change.
type Timeouts struct {
	// Health is how long a process may leave a connection unanswered while another is
	// free.
	Health time.Duration
	// HandBack is how long connections may still come back from a socket that the
	// configuration has no more.
	HandBack time.Duration
}

// Options are those of all backends.
type Options struct {
	Timeouts Timeouts
	Log      *slog.Logger
	// TakeBack is given a connection that a process handed back; it owns it.
	TakeBack func(*handoff.Conn, *Socket)
	// Refused is told of each process that did not take a connection, with the
	// reason in a word.
	Refused func(backend, socket, reason string)
}

// A Set is all backends of a front. Sockets that stay when the configuration
// changes keep their channels.
type Set struct {
	options   Options
	timeouts  atomic.Pointer[Timeouts]
	ctx       context.Context
	close     context.CancelFunc
	came      event
	farewells sync.WaitGroup

	mutex    sync.Mutex
	backends []*Backend
	sockets  map[string]*Socket

	// room guards who has how many connections, and who waits. It is held for moments.
	room sync.Mutex
}

// NewSet makes a set without backends.
func NewSet(options Options) *Set {
	s := &Set{options: options, sockets: map[string]*Socket{}}
	s.SetTimeouts(options.Timeouts)
	s.ctx, s.close = context.WithCancel(context.Background())
	return s
}

// SetTimeouts changes them.
func (s *Set) SetTimeouts(t Timeouts) { s.timeouts.Store(&t) }

func (s *Set) health() time.Duration { return s.timeouts.Load().Health }

// Apply makes the backends of a configuration, by name. retire takes away the
// sockets that none of them has: it is called when connections can find the new
// backends. Those made before go on with what they have begun, as long as one of
// their sockets can take it.
func (s *Set) Apply(all []config.Backend) (byName map[string]*Backend, retire func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	byName = map[string]*Backend{}
	kept := map[string]*Socket{}
	s.backends = nil
	for _, c := range all {
		b := &Backend{config: c, set: s, credits: make([]int, len(c.Sockets))}
		for _, address := range c.Sockets {
			key := fmt.Sprint(address, c.Users)
			if kept[key] == nil {
				kept[key] = s.socket(key, address, c.Users)
			}
			b.sockets = append(b.sockets, kept[key])
		}
		byName[c.Name] = b
		s.backends = append(s.backends, b)
	}
	var leaving []*Socket
	for key, socket := range s.sockets {
		if kept[key] == nil {
			leaving = append(leaving, socket)
		}
	}
	s.sockets = kept
	return byName, func() {
		for _, socket := range leaving {
			socket.retire()
		}
	}
}

// socket returns the one that is there, or begins to dial.
func (s *Set) socket(key, address string, users []uint32) *Socket {
	if socket := s.sockets[key]; socket != nil {
		return socket
	}
	socket := &Socket{address: address, set: s, absent: time.Now(), kick: make(chan struct{}, 1), ended: make(chan struct{})}
	socket.options = []handoff.Option{
		handoff.WithLogger(socket.log()),
		handoff.WithTakeBack(func(c *handoff.Conn) { s.options.TakeBack(c, socket) }),
	}
	if len(users) > 0 {
		socket.options = append(socket.options, handoff.WithPeerUsers(users...))
	}
	ctx, stop := context.WithCancel(s.ctx)
	socket.stop = stop
	go socket.keep(ctx)
	return socket
}

// A State is how a socket of a backend does.
type State struct {
	Backend, Socket string
	Up              bool
	// Pending connections are offered and not answered.
	Pending int
}

// States are those of all sockets of all backends.
func (s *Set) States() []State {
	s.mutex.Lock()
	backends := slices.Clone(s.backends)
	s.mutex.Unlock()
	var states []State
	for _, b := range backends {
		for _, socket := range b.sockets {
			state := State{Backend: b.config.Name, Socket: socket.address}
			if l := socket.lane.Load(); l != nil {
				state.Up, state.Pending = true, l.peer.Pending()
			}
			states = append(states, state)
		}
	}
	return states
}

// Close ends all channels. Connections that a process was offered and did not take
// go back to those who sent them.
func (s *Set) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.close()
	for _, socket := range s.sockets {
		socket.retire()
	}
	s.sockets = nil
	s.farewells.Wait()
}

func (s *Set) refused(b *Backend, socket *Socket, err error) {
	s.options.Refused(b.config.Name, socket.address, reason(err))
	s.options.Log.Debug("a process did not take a connection", "backend", b.config.Name, "socket", socket.address, "error", err)
}

// An event wakes all who wait for it.
type event struct {
	mutex sync.Mutex
	next  chan struct{}
}

// wait returns a channel that the next tell closes.
func (e *event) wait() <-chan struct{} {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.next == nil {
		e.next = make(chan struct{})
	}
	return e.next
}

func (e *event) tell() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.next != nil {
		close(e.next)
		e.next = nil
	}
}
