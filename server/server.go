package server

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/dispatch"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
)

// reservedPrefix begins the names of built-in functions.
const reservedPrefix = "nearcall."

// ErrServing is returned by Register once the server serves: callers have been
// told the functions by then.
var ErrServing = errors.New("nearcall: functions are registered before serving")

// A Server holds functions and serves them on any number of listeners.
// Its methods may be called by any number of goroutines.
type Server struct {
	config   config
	clock    monotonic.Clock
	started  time.Time
	instance uint64
	users    userTable
	counters counters
	buffers  *bufferPool

	// readBuffers are lent to connections that are not parked.
	readBuffers *readBuffers

	// spinLimit measures, once, for how long spinning pays on this machine.
	spinLimit func() time.Duration
	// memoryReported: the log has a reason why there was no shared memory.
	memoryReported atomic.Bool

	// table is built by the first Serve and immutable from then on.
	table *functionTable

	// mu protects what follows.
	mu         sync.Mutex
	registered []*function
	names      map[string]struct{}
	failures   []error
}

// A functionTable is what connections look functions up in.
type functionTable struct {
	byID     []*function // the function with id n is at n-1
	byName   map[string]*function
	document *schema.Document
}

// New returns a server without functions.
func New(options ...Option) *Server {
	s := &Server{config: defaultConfig(), clock: monotonic.New(), started: time.Now(), instance: randomInstance(), buffers: new(bufferPool), readBuffers: new(readBuffers), spinLimit: sync.OnceValue(sharedmemory.SpinLimit), names: make(map[string]struct{})}
	for _, option := range options {
		option(&s.config)
	}
	s.config.checkOutputBytes()
	s.failures = s.config.failures
	s.users.init(&s.config)
	return s
}

func randomInstance() uint64 {
	var number [8]byte
	rand.Read(number[:])
	return binary.LittleEndian.Uint64(number[:]) | 1
}

// Register serves a function under a name. It fails with a sentence that says
// where when a type cannot be sent, when the name is taken, reserved or too
// long. The same failure is returned by Serve, so it may be left unchecked here.
func (s *Server) Register(name string, fn any, options ...FunctionOption) error {
	err := s.register(name, fn, options)
	if err != nil {
		s.mu.Lock()
		s.failures = append(s.failures, err)
		s.mu.Unlock()
	}
	return err
}

func (s *Server) register(name string, fn any, options []FunctionOption) error {
	if strings.HasPrefix(name, reservedPrefix) {
		return fmt.Errorf("nearcall: register %q: names that begin with %q are the system's own", name, reservedPrefix)
	}
	made, err := newFunction(name, fn, options)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table != nil {
		return ErrServing
	}
	if _, taken := s.names[name]; taken {
		return fmt.Errorf("nearcall: register %q: the name is taken", name)
	}
	s.names[name] = struct{}{}
	s.registered = append(s.registered, made)
	return nil
}

// prepare builds the table once and returns what failed so far.
func (s *Server) prepare() (*functionTable, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failures) > 0 {
		return nil, errors.Join(s.failures...)
	}
	if s.table != nil {
		return s.table, nil
	}
	table, err := newFunctionTable(s.registered)
	if err != nil {
		return nil, err
	}
	if err := table.addBuiltins(s); err != nil {
		return nil, err
	}
	s.table = table
	return table, nil
}

func newFunctionTable(registered []*function) (*functionTable, error) {
	descriptions := make([]*schema.Function, len(registered))
	for i, f := range registered {
		descriptions[i] = f.Description()
	}
	document, err := schema.NewDocument(descriptions)
	if err != nil {
		return nil, fmt.Errorf("nearcall: %w", err)
	}
	t := &functionTable{byName: make(map[string]*function), document: document}
	for _, f := range registered {
		t.add(f)
	}
	return t, nil
}

func (t *functionTable) add(f *function) {
	t.byID = append(t.byID, f)
	f.id = uint32(len(t.byID))
	t.byName[f.name] = f
}

// find returns the function with an id, nil when there is none.
func (t *functionTable) find(id uint32) *function {
	if id == 0 || int(id) > len(t.byID) {
		return nil
	}
	return t.byID[id-1]
}

func newFunction(name string, fn any, options []FunctionOption) (*function, error) {
	var c functionConfig
	for _, option := range options {
		option(&c)
	}
	made, err := dispatch.NewFunction(name, fn, dispatch.Options{
		Doc: c.doc, ParamNames: c.params, Idempotent: c.idempotent,
		MaxRunTime: c.maxRunTime, MaxConcurrency: c.maxConcurrency,
	})
	if err != nil {
		return nil, err
	}
	f := &function{Function: made, name: name, maxRunTime: c.maxRunTime, raw: made.Raw()}
	// Who passes files may wait for them, and sending them may wait for the kernel.
	f.mayInline = !c.apart && c.maxRunTime == 0 && c.maxConcurrency == 0 && !made.UsesDescriptors()
	f.provenAt.Store(provenCalls)
	f.description, f.check = made.Description().AppendMessagePack(nil), made.Description().Check()
	if c.maxConcurrency > 0 {
		f.slots = make(chan struct{}, c.maxConcurrency)
	}
	return f, nil
}
