package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"time"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/spin"
)

// An Option configures a Server. One with a value out of range makes New fail with an error
// that names it.
type Option func(*config)

type config struct {
	failures     []error
	engine       Engine // nil: a goroutine for each connection
	logger       *slog.Logger
	interceptors []intercept.Interceptor
	observer     *observe.Observer
	software     string

	// unknownFunctions says what calls of functions get that there are none, nil: the usual.
	unknownFunctions func(name string) error

	allowedUsers      []uint32
	allowedGroups     []uint32
	allowedIdentities patterns // nil: no list
	allowAbstract     bool

	secure       Secure // nil: no tls: addresses
	plainRefused bool

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
	valueBytesMax           int // 0: no stores
	pendingOutputBytesMax   int
	callsInFlightMax        int
	callsInFlightPerUserMax int
	connectionsMax          int
	connectionsPerUserMax   int
	inputBytesMax           int64
	inputBytesPerUserMax    int64
	outputBytesMax          int64
	outputBytesPerUserMax   int64
	endedConnectionsMax     int // 0: nobody can ask
	endedConnectionKeep     time.Duration

	memoryOff             bool
	spin                  spin.Mode
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
		endedConnectionsMax:     wire.EndedConnectionsMax,
		endedConnectionKeep:     wire.EndedConnectionMs * time.Millisecond,
		memoryAfterCalls:        wire.SharedMemoryAfterCalls,
		memoryBytesPerUserMax:   wire.SharedMemoryBytesPerUserMax,
		arenaBytes:              wire.SharedMemoryArenaBytes,
	}
}

// WithLogger sets where the server logs; the default is slog.Default(). The server logs
// when it starts and stops, and what is abnormal: refusals, protocol errors, panics and
// slow peers. It never logs payloads.
func WithLogger(logger *slog.Logger) Option {
	return func(c *config) {
		if logger == nil {
			c.failures = append(c.failures, errors.New("nearcall: WithLogger: the logger is nil; slog.New(slog.DiscardHandler) logs nothing"))
			return
		}
		c.logger = logger
	}
}

// An Engine waits for input on connections. Package server/eventloop makes one. No
// other package can, because the methods that an engine needs may change.
type Engine interface{ transport.Engine }

// WithEngine sets the engine that waits for input on connections. By default a
// goroutine waits for each connection, which gives the shortest response times. An
// engine saves memory when thousands of connections are idle: see the guide
// docs/guides/event-loop.md.
func WithEngine(engine Engine) Option {
	return func(c *config) { c.engine = engine }
}

// WithInterceptor adds a function that runs around every call, including calls of the
// built-in functions, whose names begin with "nearcall.". The interceptor that is added
// first is the outermost. See package intercept.
func WithInterceptor(interceptor intercept.Interceptor) Option {
	return func(c *config) {
		if interceptor == nil {
			c.failures = append(c.failures, errors.New("nearcall: WithInterceptor: the interceptor is nil"))
			return
		}
		c.interceptors = append(c.interceptors, interceptor)
	}
}

// WithObserver adds an observer, which is told of connections and calls: see package
// observe. The contexts that its functions are given are those of the calls, so
// CallFromContext tells what has come with the request.
func WithObserver(observer *observe.Observer) Option {
	return func(c *config) { c.observer = observe.Join(c.observer, observer) }
}

// WithUnknownFunctions sets what callers are told that name a function which the server does
// not have: the error that say returns. With nil they get UNIMPLEMENTED, as without the option. A
// proxy that does not know yet what others serve may say UNAVAILABLE, so that callers try again.
// A *status.Error keeps its code; its outcome is always *not executed*. say is called while
// requests are read, by any number of goroutines, so it must not wait. It is not asked about
// names that are registered.
func WithUnknownFunctions(say func(name string) error) Option {
	return func(c *config) { c.unknownFunctions = say }
}

// WithAllowedUsers admits only peers that have one of these user ids, or belong to one
// of the groups of WithAllowedGroups. It works on local sockets only: with it, Serve
// fails for a TCP listener.
func WithAllowedUsers(userIDs ...uint32) Option {
	return func(c *config) { c.allowedUsers = append(c.allowedUsers, userIDs...) }
}

// WithAllowedGroups admits only peers that belong to one of these groups, as primary or
// supplementary group, or have one of the user ids of WithAllowedUsers. It works on
// local sockets only.
func WithAllowedGroups(groupIDs ...uint32) Option {
	return func(c *config) { c.allowedGroups = append(c.allowedGroups, groupIDs...) }
}

// A Secure makes the connections of tls: addresses. Package server/servertls makes one. No
// other package can, because the methods that it needs may change.
type Secure interface{ transport.Transport }

// WithSecure lets the server listen on tls: addresses. servertls.Certificates.Option is the
// usual way to set it.
func WithSecure(secure Secure) Option {
	return func(c *config) { c.secure = secure }
}

// WithPlainRefused makes Listen and Serve fail for TCP beyond this machine, which anybody on
// the way can read. Without it the server logs a warning, unless the address says plain=quiet.
// A listener that is passed to Serve has no address that could say so.
func WithPlainRefused() Option {
	return func(c *config) { c.plainRefused = true }
}

// WithAllowedIdentities admits, of the peers that connect over TLS, only those whose
// certificate has a name that one of the patterns fits. A pattern is a whole name; or "*."
// and the end of a DNS name; or the beginning of a name and "/*", such as
// "spiffe://example.org/web/*"; or "*" for every peer with a certificate that holds. Case
// counts. Others are refused with PERMISSION_DENIED before their first call. With it, Serve
// fails for a TCP listener, and for one of TLS that asks for no certificates. Local peers have no such names: WithAllowedUsers and
// WithAllowedGroups are about them.
func WithAllowedIdentities(patterns ...string) Option {
	return func(c *config) {
		if err := checkPatterns(patterns); err != nil {
			c.failures = append(c.failures, fmt.Errorf("nearcall: WithAllowedIdentities: %w", err))
			return
		}
		c.allowedIdentities = append(c.allowedIdentities, patterns...)
	}
}

// WithAbstractAddresses permits addresses of the form "unix:@name". Such a name has no
// file permissions: any user of the machine can connect to it, or take it before the
// server does. Use it together with WithAllowedUsers.
func WithAbstractAddresses() Option {
	return func(c *config) { c.allowAbstract = true }
}

// WithFileDescriptors lets functions take and return *os.File and *net.TCPConn. It
// applies to calls of the local peers for which allow returns true; nil allows every
// local peer that may connect. allow is called while a connection is set up or a call
// is read, so it must not wait. Without this option no peer may pass files: an open
// file is a permission that its holder keeps, and each one takes up a descriptor of
// this process.
//
// A function owns the files that it is given and must close them. The files that it
// returns are closed by the server once they are sent. Functions that pass files cannot
// be called over TCP, in JSON, or in the simple protocol.
func WithFileDescriptors(allow func(peer Peer) bool) Option {
	if allow == nil {
		allow = func(Peer) bool { return true }
	}
	return func(c *config) { c.allowDescriptors = allow }
}

// WithSocketMode sets the permissions of a socket file, up to 0777; the default is
// 0660.
func WithSocketMode(mode fs.FileMode) Option {
	return func(c *config) {
		if mode&^fs.ModePerm != 0 || mode == 0 {
			c.failures = append(c.failures, fmt.Errorf("nearcall: WithSocketMode: %#o is out of range (01 to 0777)", uint32(mode)))
			return
		}
		c.socketMode = mode
	}
}

// WithSocketGroup sets the group that owns a socket file, by its numeric id.
func WithSocketGroup(groupID int) Option {
	return func(c *config) {
		value := int64(groupID)
		if set(c, "WithSocketGroup", &value, value, 0, math.MaxUint32-1) {
			c.socketGroup = groupID
		}
	}
}

// WithHelloTimeout bounds the time from accepting a connection to the end of its hello,
// or of its first simple request. The default is 2 seconds, the most is 30 seconds.
func WithHelloTimeout(timeout time.Duration) Option {
	return func(c *config) {
		set(c, "WithHelloTimeout", &c.helloTimeout, timeout, time.Millisecond, wire.HelloTimeoutMsCeiling*time.Millisecond)
	}
}

// WithFrameTimeout bounds the time from the first byte of a frame to its last. The
// default is 10 seconds, the most is 5 minutes.
func WithFrameTimeout(timeout time.Duration) Option {
	return func(c *config) {
		set(c, "WithFrameTimeout", &c.frameTimeout, timeout, time.Millisecond, wire.FrameTimeoutMsCeiling*time.Millisecond)
	}
}

// WithFrameSilence bounds the time between two pieces of the same frame. The default is
// 2 seconds, the most is 5 minutes.
func WithFrameSilence(timeout time.Duration) Option {
	return func(c *config) {
		set(c, "WithFrameSilence", &c.frameSilence, timeout, time.Millisecond, wire.FrameSilenceMsCeiling*time.Millisecond)
	}
}

// WithWriteTimeout bounds one write to a peer that does not read. When the time is over
// the server closes the peer's connection. The default is 10 seconds, the most is 5
// minutes.
func WithWriteTimeout(timeout time.Duration) Option {
	return func(c *config) {
		set(c, "WithWriteTimeout", &c.writeTimeout, timeout, time.Millisecond, wire.WriteTimeoutMsCeiling*time.Millisecond)
	}
}

// WithDrainTimeout bounds how long Serve waits for running functions after its context
// has ended. The default is 30 seconds, the most is 10 minutes. When all functions have
// returned, Serve waits for up to a second until callers on other machines have closed their
// connections, so that they read the last answers.
func WithDrainTimeout(timeout time.Duration) Option {
	return func(c *config) {
		set(c, "WithDrainTimeout", &c.drainTimeout, timeout, 0, wire.DrainTimeoutMsCeiling*time.Millisecond)
	}
}

// WithFrameBytesMax sets the largest request, from 64 KiB to 16 MiB less one byte, and the
// largest answer of the simple protocol. The default is 4 MiB. How large other replies may be
// is for their callers to say (client.WithFrameBytesMax).
func WithFrameBytesMax(bytes int) Option {
	return func(c *config) {
		set(c, "WithFrameBytesMax", &c.frameBytesMax, bytes, wire.FrameBytesFloor, wire.FrameBytesMaxCeiling)
	}
}

// WithValueBytesMax lets requests be larger than WithFrameBytesMax says, up to so many bytes, and
// at most 1 GiB, if they come over a local socket from a caller that knows how: their payloads then
// lie in memory files that the server makes for it. Replies may be as large as their callers say
// (client.WithValueBytesMax). By default nothing travels in this way.
//
// Each such file is counted as a whole, against WithInputBytes if it is for a request, and
// against WithOutputBytes if it is for a reply. Both must be at least as large as the file
// for the largest request. A request of another user counts twice, because the server copies
// it before it looks at it. The server keeps a file for the next call for a second if all that is
// counted for the user is at most a quarter of what may be, and none of its calls waits for
// room; making a file anew for each call takes several times as long as copying.
//
// A function that a caller of the server's own user calls is given its []byte where the caller
// has written it. Like every []byte of a request it is valid only until the function returns;
// a function that looks at it later ends the process.
func WithValueBytesMax(bytes int) Option {
	return func(c *config) {
		set(c, "WithValueBytesMax", &c.valueBytesMax, bytes, wire.FrameBytesFloor, wire.ValueBytesMaxCeiling)
	}
}

// WithPendingOutputBytesMax bounds the replies that are kept for a peer while an
// earlier write to it is blocked. Functions that finish then wait until there is room
// again. The default is 1 MiB, the most is 64 MiB.
func WithPendingOutputBytesMax(bytes int) Option {
	return func(c *config) {
		set(c, "WithPendingOutputBytesMax", &c.pendingOutputBytesMax, bytes, 1, wire.PendingOutputBytesMaxCeiling)
	}
}

// WithCallsInFlight bounds the calls that are not answered yet, for each connection and
// for all connections of a user. Calls beyond a limit are refused with
// RESOURCE_EXHAUSTED. The defaults are 1024 and 8192.
func WithCallsInFlight(perConnection, perUser int) Option {
	return func(c *config) {
		set(c, "WithCallsInFlight, perConnection", &c.callsInFlightMax, perConnection, 1, wire.CallsInFlightMaxCeiling)
		set(c, "WithCallsInFlight, perUser", &c.callsInFlightPerUserMax, perUser, 1, wire.CallsInFlightPerUserMaxCeiling)
	}
}

// WithConnections bounds the open connections of the server and of each user. An eighth
// of them is kept for root and for the user of the server. Connections beyond a limit
// are refused with RESOURCE_EXHAUSTED. The defaults are 16384 and 12288. Serve lowers both,
// and logs a warning, if the process may have too few descriptors for so many connections.
func WithConnections(all, perUser int) Option {
	return func(c *config) {
		set(c, "WithConnections, all", &c.connectionsMax, all, 1, wire.ConnectionsMaxCeiling)
		set(c, "WithConnections, perUser", &c.connectionsPerUserMax, perUser, 1, wire.ConnectionsPerUserMaxCeiling)
	}
}

// WithInputBytes bounds the memory for requests that have arrived, in whole or in part,
// and have not run yet: for all users together, and for each user. A request that does
// not fit is refused with RESOURCE_EXHAUSTED. What fits into a connection's own small
// buffers is not counted. The defaults are 1 GiB and 256 MiB.
func WithInputBytes(all, perUser int64) Option {
	return func(c *config) {
		set(c, "WithInputBytes, all", &c.inputBytesMax, all, wire.FrameBytesFloor, wire.InputBytesMaxCeiling)
		set(c, "WithInputBytes, perUser", &c.inputBytesPerUserMax, perUser, wire.FrameBytesFloor, wire.InputBytesPerUserMaxCeiling)
	}
}

// WithOutputBytes bounds the memory for replies that wait until their callers read
// them: for all users together, and for each user. The defaults are 1 GiB and 256 MiB.
//
// While there is no room, the server holds back new requests of that user for half of
// WithWriteTimeout, and then refuses them with RESOURCE_EXHAUSTED. The results of calls
// that have already run wait for as long as a write may take. They are dropped only
// after that, or when the waiting results take up twice the bytes of a user or as many
// as those of all users; the caller then gets RESOURCE_EXHAUSTED, executed, result
// lost.
//
// Each of the two must be about a third larger than the largest reply
// (WithFrameBytesMax), rounded up to a multiple of 64 KiB.
func WithOutputBytes(all, perUser int64) Option {
	return func(c *config) {
		set(c, "WithOutputBytes, all", &c.outputBytesMax, all, wire.FrameBytesFloor, wire.OutputBytesMaxCeiling)
		set(c, "WithOutputBytes, perUser", &c.outputBytesPerUserMax, perUser, wire.FrameBytesFloor, wire.OutputBytesPerUserMaxCeiling)
	}
}

// WithEndedConnections sets of how many connections that have ended the server remembers how
// far their calls came, and for how long. A caller that has lost its connection asks the server
// over another one, and so learns whether a function ran. One user has a quarter of the
// connections at most. Each takes about 1 KiB if it was a local one, and 2.5 KiB otherwise, and
// up to nine bytes more for each call that was in flight at its end. The defaults are 4096 and a
// minute. At most 1,048,576 connections and an hour can be set. With 0 connections nobody can
// ask, and what became of calls on a lost connection stays unknown.
func WithEndedConnections(count int, keep time.Duration) Option {
	return func(c *config) {
		set(c, "WithEndedConnections, count", &c.endedConnectionsMax, count, 0, wire.EndedConnectionsMaxCeiling)
		set(c, "WithEndedConnections, keep", &c.endedConnectionKeep, keep, time.Millisecond, wire.EndedConnectionMsCeiling*time.Millisecond)
	}
}

// checkOutputBytes refuses budgets in which a reply of the largest size does not fit: a
// function with such a reply would run, and lose its result, every time. A caller may
// accept still larger replies; for those the error of the call says what happened.
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

// WithoutSharedMemory makes the server use sockets only. The address parameter shm=off
// does the same for one address.
func WithoutSharedMemory() Option {
	return func(c *config) { c.memoryOff = true }
}

// WithSpin sets how connections with shared memory wait for the next call. With spin.Auto,
// the default, the address parameter spin decides.
func WithSpin(mode spin.Mode) Option {
	return func(c *config) {
		value := int(mode)
		if set(c, "WithSpin", &value, value, int(spin.Auto), int(spin.Dedicated)) {
			c.spin = mode
		}
	}
}

// WithSharedMemoryBytesPerUser bounds the shared memory of all connections of a user.
// Regions are counted at their full size, however much of them is used. A connection
// that does not fit gets less memory, or none, and then uses its socket. The default is
// 1 GiB.
func WithSharedMemoryBytesPerUser(bytes int64) Option {
	return func(c *config) {
		set(c, "WithSharedMemoryBytesPerUser", &c.memoryBytesPerUserMax, bytes, 0, wire.SharedMemoryBytesPerUserMaxCeiling)
	}
}

// WithSharedMemoryAfter sets after how many calls a connection is given shared memory,
// from 1 to 1048576. The default is 16.
func WithSharedMemoryAfter(calls int) Option {
	return func(c *config) {
		set(c, "WithSharedMemoryAfter", &c.memoryAfterCalls, calls, 1, wire.SharedMemoryAfterCallsCeiling)
	}
}

// WithSharedMemoryArena sets the size of the arena of a connection, for each direction.
// The arena holds the bodies of frames that do not fit into a slot; frames that do not
// fit into the arena travel over the socket. The size is a multiple of 4096 bytes, from
// 0 to 16 MiB, and by default 4 MiB. The kernel allocates its pages when they are first
// used. Connections of a user whose memory takes up half of what WithSharedMemoryBytesPerUser
// allows get arenas of half that size, and the last ones none.
func WithSharedMemoryArena(bytes int) Option {
	return func(c *config) {
		if bytes%arenaGranule != 0 {
			c.failures = append(c.failures, fmt.Errorf("nearcall: WithSharedMemoryArena: %d is out of range (multiples of %d)", bytes, arenaGranule))
			return
		}
		set(c, "WithSharedMemoryArena", &c.arenaBytes, bytes, 0, wire.SharedMemoryArenaBytesCeiling)
	}
}

// arenaGranule is the unit in which the size of an arena is given: a page.
const arenaGranule = 4096

// WithName sets the name by which the server introduces itself in its welcome, up to
// 255 bytes.
func WithName(software string) Option {
	return func(c *config) {
		bytes := len(software)
		if set(c, "WithName, bytes", &bytes, bytes, 0, math.MaxUint8) {
			c.software = software
		}
	}
}

// set sets what an option changes. A value out of range is refused: New says so.
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
	interceptors   []intercept.Interceptor
	doc            string
	params         []string
	idempotent     bool
	maxRunTime     time.Duration
	maxConcurrency int
	apart          bool
	borrows        bool
	identities     patterns // nil: anybody
	// elsewhere says where the function can be called directly, nil: nowhere.
	elsewhere func(peer intercept.Peer) (address string, valid time.Duration)
}

// Doc documents the function for its callers. The text appears in nearcall describe and
// in generated stubs.
func Doc(text string) FunctionOption {
	return func(c *functionConfig) { c.doc = text }
}

// Params names the parameters, because Go's reflection does not know their names.
// Without it they are called arg1, arg2 and so on.
func Params(names ...string) FunctionOption {
	return func(c *functionConfig) { c.params = names }
}

// Idempotent declares that running the function twice does no more harm than running it
// once, so callers may send a call again when its outcome is unknown.
func Idempotent() FunctionOption {
	return func(c *functionConfig) { c.idempotent = true }
}

// Intercept adds interceptors that run around the function, inside those of the server and
// of the function's group.
func Intercept(interceptors ...intercept.Interceptor) FunctionOption {
	return func(c *functionConfig) { c.interceptors = append(c.interceptors, interceptors...) }
}

// Identities lets only those peers call the function whose certificate has a name that one
// of the patterns fits: see WithAllowedIdentities. Calls of other peers, including local ones
// and those in this process, are refused with PERMISSION_DENIED before their arguments are
// looked at.
func Identities(patterns ...string) FunctionOption {
	return func(c *functionConfig) {
		c.identities = append(c.identities[:len(c.identities):len(c.identities)], patterns...)
	}
}

// MaxRunTime ends the function's context after this long and answers the
// caller with DEADLINE_EXCEEDED, outcome unknown, even if the function goes on.
func MaxRunTime(limit time.Duration) FunctionOption {
	return func(c *functionConfig) { c.maxRunTime = limit }
}

// MaxConcurrency limits how many calls of the function run at the same time. Other
// calls wait their turn, within their deadlines.
func MaxConcurrency(limit int) FunctionOption {
	return func(c *functionConfig) { c.maxConcurrency = limit }
}

// Borrow promises that the function keeps no []byte and no list of numbers of its arguments,
// wherever it is in them, and does not write to them. These may point into the request then,
// and are valid until the function has returned, as a []byte that is an argument itself
// always is. The result may hold them. A function that is given large values saves an
// allocation and, because that memory is new, much of the time that a call takes. It has to
// copy what it needs for longer.
func Borrow() FunctionOption {
	return func(c *functionConfig) { c.borrows = true }
}

// Apart runs each call of the function in a goroutine of its own, from the first one
// on. Use it for a function that may be slow, even if rarely. Without it a function
// that has been quick so far runs in the goroutine that reads the connection, and when
// it is slow for the first time it delays other calls on that connection by some
// milliseconds. With Apart, each call costs one or two microseconds more.
//
// In a library (see package embed) Apart also keeps the function out of its caller's
// thread.
func Apart() FunctionOption {
	return func(c *functionConfig) { c.apart = true }
}
