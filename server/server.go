package server

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/dispatch"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
)

// reservedPrefix is the beginning of the names of built-in functions.
const reservedPrefix = "nearcall."

// ErrServing is what Register returns once the server serves: by then callers may have
// been told what functions there are.
var ErrServing = errors.New("nearcall: functions are registered before serving")

// A Server holds functions and serves them on any number of listeners. Its methods may
// be called from any number of goroutines.
type Server struct {
	config   config
	clock    monotonic.Clock
	started  time.Time
	instance uint64
	users    userTable
	lifetime lifetime
	// histories are of connections that callers can ask about.
	histories historyTable
	counters  counters
	gauge     loadGauge
	watches   watchList
	buffers   *bufferPool
	// passers run forwarded calls.
	passers passers

	// readBuffers are lent to connections, except while they are parked.
	readBuffers *readBuffers

	// spinLimit measures, the first time it is called, for how long spinning pays on
	// this machine.
	spinLimit func() time.Duration
	// memoryReported is set once the log has a reason why there was no shared memory.
	memoryReported atomic.Bool

	// turnedAway counts the peers that are being turned away.
	turnedAway atomic.Int64

	// table is built by the first Serve and is immutable from then on.
	table *functionTable

	// mu protects what follows.
	mu         sync.Mutex
	registered []*function
	names      map[string]struct{}
	failures   []error
}

// A functionTable is where connections look functions up.
type functionTable struct {
	byID     []*function // the function with id n is at n-1
	byName   map[string]*function
	document *schema.Document
}

// New returns a server without functions. It fails if an option has a value out of range,
// and says which.
func New(options ...Option) (*Server, error) {
	s := &Server{config: defaultConfig(), clock: monotonic.New(), started: time.Now(), instance: randomInstance(), buffers: new(bufferPool), readBuffers: new(readBuffers), spinLimit: sync.OnceValue(sharedmemory.SpinLimit), names: make(map[string]struct{})}
	for _, option := range options {
		option(&s.config)
	}
	s.config.checkOutputBytes()
	s.config.checkValueBytes()
	if len(s.config.failures) > 0 {
		return nil, errors.Join(s.config.failures...)
	}
	s.users.init(&s.config)
	s.histories.init(&s.config)
	return s, nil
}

func randomInstance() uint64 {
	var number [8]byte
	rand.Read(number[:])
	return binary.LittleEndian.Uint64(number[:]) | 1
}

// Register makes a function callable under a name. It fails if a parameter or a result
// has a type that cannot be sent, if the name is taken, too long or reserved, or if the
// server already serves. Its error says which, and where. Serve returns the same error,
// so a program need not check it here.
func (s *Server) Register(name string, fn any, options ...FunctionOption) error {
	if err := s.register(name, fn, options); err != nil {
		return s.fail(err)
	}
	return nil
}

func (s *Server) register(name string, fn any, options []FunctionOption) error {
	if strings.HasPrefix(name, reservedPrefix) {
		return reserved(name)
	}
	made, err := s.newFunction(name, fn, options)
	if err != nil {
		return err
	}
	return s.enter(made)
}

func reserved(name string) error {
	return fmt.Errorf("nearcall: register %q: names that begin with %q are the system's own", name, reservedPrefix)
}

// enter adds a function to those that will be served.
func (s *Server) enter(made *function) error {
	name := made.name
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

// prepare builds the table once. It returns the failures of options and registrations.
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

// find returns the function with an id, or nil if there is none.
func (t *functionTable) find(id uint32) *function {
	if id == 0 || int(id) > len(t.byID) {
		return nil
	}
	return t.byID[id-1]
}

// keepBytes reports whether the function with an id may keep parts of large payloads.
func (t *functionTable) keepBytes(id uint32) bool {
	f := t.find(id)
	return f != nil && f.keepsBytes
}

func (s *Server) newFunction(name string, fn any, options []FunctionOption) (*function, error) {
	c, err := optionsOf(name, options)
	if err != nil {
		return nil, err
	}
	if typed, ok := fn.(Typed); ok {
		fn = typed.adapter
	}
	made, err := dispatch.NewFunction(name, fn, dispatch.Options{
		Doc: c.doc, ParamNames: c.params, Idempotent: c.idempotent,
		MaxRunTime: c.maxRunTime, MaxConcurrency: c.maxConcurrency,
	})
	if err != nil {
		return nil, err
	}
	f := s.describeFunction(made, c)
	f.raw = made.Raw()
	// A function that passes files may wait for them, and sending them may wait for the
	// kernel.
	f.mayInline = !c.apart && c.elsewhere == nil && c.maxRunTime == 0 && c.maxConcurrency == 0 && !made.UsesDescriptors()
	f.borrows = c.borrows
	f.keepsBytes = !f.borrows && len(f.interceptors) == 0 && made.Description().HoldsBytes()
	return f, nil
}

// describeFunction makes what functions have in common, whatever runs them.
func (s *Server) describeFunction(made *dispatch.Function, c *functionConfig) *function {
	description := made.Description()
	f := &function{Function: made, name: description.Name, maxRunTime: c.maxRunTime, identities: c.identities, elsewhere: c.elsewhere}
	f.interceptors = slices.Concat(s.config.interceptors, c.interceptors)
	f.needsContext = made.TakesContext() || len(f.interceptors) > 0 || s.config.observer != nil
	f.provenAt.Store(provenCalls)
	f.description, f.check = description.AppendMessagePack(nil), description.Check()
	if c.maxConcurrency > 0 {
		f.slots = make(chan struct{}, c.maxConcurrency)
	}
	return f
}

// optionsOf returns what the options of a function say.
func optionsOf(name string, options []FunctionOption) (*functionConfig, error) {
	var c functionConfig
	for _, option := range options {
		option(&c)
	}
	if slices.ContainsFunc(c.interceptors, func(i intercept.Interceptor) bool { return i == nil }) {
		return nil, fmt.Errorf("nearcall: register %q: Intercept: an interceptor is nil", name)
	}
	if c.identities != nil {
		if err := checkPatterns(c.identities); err != nil {
			return nil, fmt.Errorf("nearcall: register %q: Identities: %w", name, err)
		}
	}
	return &c, nil
}
