package server

import (
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
)

// An Option configures a Server. One with a value out of range changes nothing, and makes
// Serve and Direct fail with an error that names it.
type Option func(*config)

type config struct {
	failures     []error
	engine       Engine // nil: a goroutine for each connection
	logger       *slog.Logger
	interceptors []Interceptor
	software     string

	allowedUsers  []uint32
	allowedGroups []uint32
	allowAbstract bool

	// allowDescriptors says who may pass them, nil: nobody.
	allowDescriptors func(Peer) bool

	socketMode  fs.FileMode
	socketGroup int

	helloTimeout            time.Duration
	frameTimeout            time.Duration
	frameSilence            time.Duration
	writeTimeout            time.Duration
	drainTimeout            time.Duration
	frameBytesMax           int
	pendingOutputBytesMax   int
	callsInFlightMax        int
	callsInFlightPerUserMax int
	connectionsMax          int
	connectionsPerUserMax   int
	inputBytesMax           int64
	inputBytesPerUserMax    int64
	outputBytesMax          int64
	outputBytesPerUserMax   int64

	memoryOff             bool
	spin                  Spin
	memoryAfterCalls      int
	memoryBytesPerUserMax int64
	arenaBytes            int
}

func defaultConfig() config {
	return config{
		logger:                  slog.Default(),
		software:                "nearcall-go/" + wire.ProductVersion,
		socketGroup:             -1,
		helloTimeout:            wire.HelloTimeoutMs * time.Millisecond,
		frameTimeout:            wire.FrameTimeoutMs * time.Millisecond,
		frameSilence:            wire.FrameSilenceMs * time.Millisecond,
		writeTimeout:            wire.WriteTimeoutMs * time.Millisecond,
		drainTimeout:            wire.DrainTimeoutMs * time.Millisecond,
		frameBytesMax:           wire.FrameBytesMax,
		pendingOutputBytesMax:   wire.PendingOutputBytesMax,
		callsInFlightMax:        wire.CallsInFlightMax,
		callsInFlightPerUserMax: wire.CallsInFlightPerUserMax,
		connectionsMax:          wire.ConnectionsMax,
		connectionsPerUserMax:   wire.ConnectionsPerUserMax,
		inputBytesMax:           wire.InputBytesMax,
		inputBytesPerUserMax:    wire.InputBytesPerUserMax,
		outputBytesMax:          wire.OutputBytesMax,
		outputBytesPerUserMax:   wire.OutputBytesPerUserMax,
		memoryAfterCalls:        wire.SharedMemoryAfterCalls,
		memoryBytesPerUserMax:   wire.SharedMemoryBytesPerUserMax,
		arenaBytes:              wire.SharedMemoryArenaBytes,
	}
}

// WithLogger sets where the server logs; the default is slog.Default(). It
// logs what is abnormal (refusals, protocol errors, panics, slow peers) and
// starting and stopping, never payloads.
func WithLogger(logger *slog.Logger) Option {
	return func(c *config) { c.logger = logger }
}

// An Engine is what waits for connections. Package server/eventloop makes one; others
// can not, because what engines are asked to do may change.
type Engine interface{ transport.Engine }

// WithEngine sets what waits for connections. By default each has a goroutine of its
// own, which answers soonest: for thousands of idle ones see the guide
// docs/guides/event-loop.md.
func WithEngine(engine Engine) Option {
	return func(c *config) { c.engine = engine }
}

// WithInterceptor adds a function that runs around every call, the first added
// outermost.
func WithInterceptor(interceptor Interceptor) Option {
	return func(c *config) { c.interceptors = append(c.interceptors, interceptor) }
}

// WithAllowedUsers admits only peers with one of these user ids, or of a group
// of WithAllowedGroups. It works on local sockets only: serving TCP with it
// fails.
func WithAllowedUsers(userIDs ...uint32) Option {
	return func(c *config) { c.allowedUsers = append(c.allowedUsers, userIDs...) }
}

// WithAllowedGroups admits only peers that belong to one of these group ids,
// supplementary groups included, or have a user id of WithAllowedUsers.
func WithAllowedGroups(groupIDs ...uint32) Option {
	return func(c *config) { c.allowedGroups = append(c.allowedGroups, groupIDs...) }
}

// WithAbstractAddresses permits "unix:@name". Any user of the machine can take
// such a name before the server does, and connect to it whatever the file
// permissions: use it together with WithAllowedUsers.
func WithAbstractAddresses() Option {
	return func(c *config) { c.allowAbstract = true }
}

// WithFileDescriptors lets functions take and return *os.File and *net.TCPConn in
// calls of those local peers for which allow, which must not wait, returns true;
// nil allows it to every local peer that may connect. Without this option nobody may:
// an open file is a right that whoever has it keeps, and each takes one of this
// process's descriptors.
//
// What a function takes is its own, to close as well. What it returns is closed
// when it was sent. Over TCP, in JSON and in the simple protocol such
// functions cannot be called.
func WithFileDescriptors(allow func(peer Peer) bool) Option {
	if allow == nil {
		allow = func(Peer) bool { return true }
	}
	return func(c *config) { c.allowDescriptors = allow }
}

// WithSocketMode sets the permissions of a path socket, up to 0777; the default is 0660.
func WithSocketMode(mode fs.FileMode) Option {
	return func(c *config) {
		if mode&^fs.ModePerm != 0 || mode == 0 {
			c.failures = append(c.failures, fmt.Errorf("nearcall: WithSocketMode: %#o is out of range (01 to 0777)", uint32(mode)))
			return
		}
		c.socketMode = mode
	}
}

// WithSocketGroup gives a path socket to a group id.
func WithSocketGroup(groupID int) Option {
	return func(c *config) {
		value := int64(groupID)
		if set(c, "WithSocketGroup", &value, value, 0, math.MaxUint32-1) {
			c.socketGroup = groupID
		}
	}
}

// WithHelloTimeout bounds the time from accept to the end of the hello, up to
// 30 seconds; the default is 2.
func WithHelloTimeout(timeout time.Duration) Option {
	return func(c *config) {
		set(c, "WithHelloTimeout", &c.helloTimeout, timeout, time.Millisecond, wire.HelloTimeoutMsCeiling*time.Millisecond)
	}
}

// WithFrameTimeout bounds the time from a frame's first byte to its last, up to
// 5 minutes; the default is 10 seconds.
func WithFrameTimeout(timeout time.Duration) Option {
	return func(c *config) {
		set(c, "WithFrameTimeout", &c.frameTimeout, timeout, time.Millisecond, wire.FrameTimeoutMsCeiling*time.Millisecond)
	}
}

// WithFrameSilence bounds the time between two pieces of one frame, up to 5
// minutes; the default is 2 seconds.
func WithFrameSilence(timeout time.Duration) Option {
	return func(c *config) {
		set(c, "WithFrameSilence", &c.frameSilence, timeout, time.Millisecond, wire.FrameSilenceMsCeiling*time.Millisecond)
	}
}

// WithWriteTimeout bounds one write to a peer that does not read, up to 5
// minutes; the default is 10 seconds. The peer then loses its connection.
func WithWriteTimeout(timeout time.Duration) Option {
	return func(c *config) {
		set(c, "WithWriteTimeout", &c.writeTimeout, timeout, time.Millisecond, wire.WriteTimeoutMsCeiling*time.Millisecond)
	}
}

// WithDrainTimeout bounds how long Serve waits for running functions after its
// context ended, up to 10 minutes; the default is 30 seconds.
func WithDrainTimeout(timeout time.Duration) Option {
	return func(c *config) {
		set(c, "WithDrainTimeout", &c.drainTimeout, timeout, 0, wire.DrainTimeoutMsCeiling*time.Millisecond)
	}
}

// WithFrameBytesMax sets the largest request and reply, 64 KiB to 16 MiB; the
// default is 4 MiB.
func WithFrameBytesMax(bytes int) Option {
	return func(c *config) {
		set(c, "WithFrameBytesMax", &c.frameBytesMax, bytes, wire.FrameBytesFloor, wire.FrameBytesMaxCeiling)
	}
}

// WithPendingOutputBytesMax bounds the replies kept for a peer that reads
// slowly; functions that finish then wait. The default is 1 MiB.
func WithPendingOutputBytesMax(bytes int) Option {
	return func(c *config) {
		set(c, "WithPendingOutputBytesMax", &c.pendingOutputBytesMax, bytes, 1, wire.PendingOutputBytesMaxCeiling)
	}
}

// WithCallsInFlight bounds the unanswered calls of one connection and of all
// connections of one user; calls beyond are refused with RESOURCE_EXHAUSTED.
func WithCallsInFlight(perConnection, perUser int) Option {
	return func(c *config) {
		set(c, "WithCallsInFlight, perConnection", &c.callsInFlightMax, perConnection, 1, wire.CallsInFlightMaxCeiling)
		set(c, "WithCallsInFlight, perUser", &c.callsInFlightPerUserMax, perUser, 1, wire.CallsInFlightPerUserMaxCeiling)
	}
}

// WithConnections bounds the open connections of the server and of one user;
// connections beyond are refused with RESOURCE_EXHAUSTED.
func WithConnections(all, perUser int) Option {
	return func(c *config) {
		set(c, "WithConnections, all", &c.connectionsMax, all, 1, wire.ConnectionsMaxCeiling)
		set(c, "WithConnections, perUser", &c.connectionsPerUserMax, perUser, 1, wire.ConnectionsPerUserMaxCeiling)
	}
}

// WithInputBytes bounds what the server holds of requests that have come, whole or in
// part, and not run: of all users and of one. A request beyond is refused with
// RESOURCE_EXHAUSTED. What fits a connection's own small buffers is not counted. The
// defaults are 1 GiB and 256 MiB.
func WithInputBytes(all, perUser int64) Option {
	return func(c *config) {
		set(c, "WithInputBytes, all", &c.inputBytesMax, all, wire.FrameBytesFloor, wire.InputBytesMaxCeiling)
		set(c, "WithInputBytes, perUser", &c.inputBytesPerUserMax, perUser, wire.FrameBytesFloor, wire.InputBytesPerUserMaxCeiling)
	}
}

// WithOutputBytes bounds the replies that wait to be read: of all users and of one. While
// there is no room, requests of that user are held back for half of WithWriteTimeout, then
// refused with RESOURCE_EXHAUSTED. Results that are there already wait for as long as a
// write may take, and are lost only then, or when those that wait take twice one
// user's bytes, or as much as all users'. Either has to be a third larger than a reply of
// WithFrameBytesMax, in multiples of 64 KiB. The defaults are 1 GiB and 256 MiB.
func WithOutputBytes(all, perUser int64) Option {
	return func(c *config) {
		set(c, "WithOutputBytes, all", &c.outputBytesMax, all, wire.FrameBytesFloor, wire.OutputBytesMaxCeiling)
		set(c, "WithOutputBytes, perUser", &c.outputBytesPerUserMax, perUser, wire.FrameBytesFloor, wire.OutputBytesPerUserMaxCeiling)
	}
}

// checkOutputBytes refuses budgets that a reply of the largest size does not fit: functions would
// run, and their results be lost, each time. Of a larger one, for a caller that accepts it, the error says so.
func (c *config) checkOutputBytes() {
	least := outputBytesLeast(c.frameBytesMax)
	for _, budget := range []struct {
		of    string
		bytes int64
	}{{"all", c.outputBytesMax}, {"perUser", c.outputBytesPerUserMax}} {
		if budget.bytes < least {
			c.failures = append(c.failures, fmt.Errorf("nearcall: WithOutputBytes, %s: %d is out of range: a reply of WithFrameBytesMax, %d bytes, is sure of room in %d; raise it to that, or make frames smaller",
				budget.of, budget.bytes, c.frameBytesMax, least))
		}
	}
}

// WithoutSharedMemory serves over sockets only. The parameter shm=off of the
// address does the same for one address.
func WithoutSharedMemory() Option {
	return func(c *config) { c.memoryOff = true }
}

// A Spin says how the goroutine of a connection that has shared memory waits for
// the next call: see the guide docs/guides/shared-memory.md.
type Spin uint8

// The ways to wait. They are those of the address parameter spin, which counts
// where the option is not given.
const (
	// SpinAuto spins where that makes calls faster.
	SpinAuto Spin = iota
	// SpinOff sleeps at once: least CPU, a few microseconds more per call.
	SpinOff
	// SpinDedicated never sleeps while a connection is open: each takes a CPU.
	SpinDedicated
)

// WithSpin sets how connections that have shared memory wait for the next call;
// the default is SpinAuto.
func WithSpin(spin Spin) Option {
	return func(c *config) {
		value := int(spin)
		if set(c, "WithSpin", &value, value, int(SpinAuto), int(SpinDedicated)) {
			c.spin = spin
		}
	}
}

// WithSharedMemoryBytesPerUser bounds the shared memory of all connections of
// one user, counted as if all of it were used; connections beyond get less, then
// none, and use their sockets. The default is 1 GiB.
func WithSharedMemoryBytesPerUser(bytes int64) Option {
	return func(c *config) {
		set(c, "WithSharedMemoryBytesPerUser", &c.memoryBytesPerUserMax, bytes, 0, wire.SharedMemoryBytesPerUserMaxCeiling)
	}
}

// WithSharedMemoryAfter sets after how many calls a connection is given shared
// memory, 1 to 1048576; the default is 16.
func WithSharedMemoryAfter(calls int) Option {
	return func(c *config) {
		set(c, "WithSharedMemoryAfter", &c.memoryAfterCalls, calls, 1, wire.SharedMemoryAfterCallsCeiling)
	}
}

// WithSharedMemoryArena sets how many bytes of bodies that do not fit a slot may
// be on their way in each direction of a connection's memory, 0 to 16 MiB, in whole
// pages of 4096; the default is 2 MiB. Larger frames travel over the socket. Pages are allocated
// when they are first used.
func WithSharedMemoryArena(bytes int) Option {
	return func(c *config) {
		if bytes%arenaGranule != 0 {
			c.failures = append(c.failures, fmt.Errorf("nearcall: WithSharedMemoryArena: %d is out of range (multiples of %d)", bytes, arenaGranule))
			return
		}
		set(c, "WithSharedMemoryArena", &c.arenaBytes, bytes, 0, wire.SharedMemoryArenaBytesCeiling)
	}
}

// arenaGranule is what the bytes of an arena are a multiple of: a page.
const arenaGranule = 4096

// WithName sets what the server calls itself in its welcome.
func WithName(software string) Option {
	return func(c *config) {
		bytes := len(software)
		if set(c, "WithName, bytes", &bytes, bytes, 0, math.MaxUint8) {
			c.software = software
		}
	}
}

// set sets what an option changes. A value out of range is refused: Serve says so.
func set[T int | int64 | time.Duration](c *config, option string, to *T, value, low, high T) bool {
	if value < low || value > high {
		c.failures = append(c.failures, fmt.Errorf("nearcall: %s: %v is out of range (%v to %v)", option, value, low, high))
		return false
	}
	*to = value
	return true
}

// A FunctionOption describes or limits one function.
type FunctionOption func(*functionConfig)

type functionConfig struct {
	doc            string
	params         []string
	idempotent     bool
	maxRunTime     time.Duration
	maxConcurrency int
	apart          bool
}

// Doc documents the function for callers; it appears in generated stubs.
func Doc(text string) FunctionOption {
	return func(c *functionConfig) { c.doc = text }
}

// Params names the parameters, which Go's reflection cannot tell; without it
// they are called arg1, arg2 and so on.
func Params(names ...string) FunctionOption {
	return func(c *functionConfig) { c.params = names }
}

// Idempotent marks a function that does no harm when it runs twice, so that
// callers may repeat it when the outcome is unknown.
func Idempotent() FunctionOption {
	return func(c *functionConfig) { c.idempotent = true }
}

// MaxRunTime ends the function's context after this long and answers the
// caller with DEADLINE_EXCEEDED, outcome unknown, even if the function goes on.
func MaxRunTime(limit time.Duration) FunctionOption {
	return func(c *functionConfig) { c.maxRunTime = limit }
}

// MaxConcurrency lets at most this many calls of the function run at a time;
// others wait within their deadlines.
func MaxConcurrency(limit int) FunctionOption {
	return func(c *functionConfig) { c.maxConcurrency = limit }
}

// Apart runs each call of the function in a goroutine of its own, from the first one
// on. It is for functions that may be slow, however seldom: quick functions are run
// where their requests are read, so that the first slow calls of one delay others on
// the same connection by some milliseconds. Each call costs a microsecond or two more.
//
// In a library (package embed) such a function is not run in the thread of its
// caller either.
func Apart() FunctionOption {
	return func(c *functionConfig) { c.apart = true }
}
