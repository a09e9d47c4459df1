package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/spin"
)

// Version is the version of Nearcall.
const Version = wire.ProductVersion

const (
	// DefaultTimeout is the time that a call may take if neither its context nor
	// WithTimeout says otherwise: 30 seconds.
	DefaultTimeout = wire.CallTimeoutMs * time.Millisecond
	// FrameBytesCeiling is the largest value that WithFrameBytesMax accepts: 16 MiB less
	// one byte.
	FrameBytesCeiling = wire.FrameBytesMaxCeiling
)

// NoTimeout is a value for WithTimeout: calls whose context has no deadline then wait
// without a limit.
const NoTimeout time.Duration = -1

// An Option configures a Client. New fails if a value is out of range.
type Option func(*config)

type config struct {
	timeout         time.Duration
	connectTimeout  time.Duration
	endpointConnect time.Duration
	attemptsMax     int
	frameBytesMax   int
	valueBytesMax   int // 0: none in stores
	allowAbstract   bool
	anyServerUser   bool
	serverUsers     []uint32
	memoryOff       bool
	spin            spin.Mode
	drift           Drift
	interceptors    []intercept.Interceptor
	observer        *observe.Observer
	dial            func(ctx context.Context, address string) (net.Conn, error)
	name            string
	logger          *slog.Logger
	secure          Secure // nil: no tls: addresses
	plainRefused    bool
	silence         time.Duration // 0: as the address says
	direct          Direct
}

func defaultConfig() config {
	return config{
		timeout:         DefaultTimeout,
		endpointConnect: wire.EndpointConnectMs * time.Millisecond,
		attemptsMax:     wire.AttemptsMax,
		frameBytesMax:   wire.FrameBytesMax,
		name:            "nearcall-go/" + Version,
		logger:          slog.New(slog.DiscardHandler),
	}
}

// endpointLimit returns how long connecting to one of several endpoints may take.
func (c *config) endpointLimit() time.Duration {
	if c.connectTimeout > 0 {
		return min(c.endpointConnect, c.connectTimeout)
	}
	return c.endpointConnect
}

// connectLimit returns how long an attempt to connect may take that goes on without its caller,
// who has so much time. It is not so short that nothing would come of it for later calls.
func (c *config) connectLimit(remaining time.Duration) time.Duration {
	if c.connectTimeout > 0 {
		remaining = min(remaining, c.connectTimeout)
	}
	return max(remaining, c.endpointLimit())
}

func (c *config) check() error {
	if err := checkTimeout(c.timeout); err != nil {
		return err
	}
	if err := checkAttempts(c.attemptsMax); err != nil {
		return err
	}
	if err := checkInterceptors(c.interceptors); err != nil {
		return err
	}
	switch {
	case c.logger == nil:
		return errors.New("the logger is nil: without WithLogger, nothing is logged")
	case c.connectTimeout < 0:
		return fmt.Errorf("connect timeout %v: it must not be negative", c.connectTimeout)
	case c.endpointConnect < time.Millisecond || c.endpointConnect > wire.EndpointConnectMsCeiling*time.Millisecond:
		return fmt.Errorf("endpoint connect timeout %v: limit endpoint_connect_ms is 1 ms to %v", c.endpointConnect, wire.EndpointConnectMsCeiling*time.Millisecond)
	case c.silence != 0 && c.silence != SilenceOff && (c.silence < address.SilenceMin || c.silence > address.SilenceMax):
		return fmt.Errorf("silence %v: it must be %v to %v, or client.SilenceOff", c.silence, address.SilenceMin, address.SilenceMax)
	case c.frameBytesMax < wire.FrameBytesFloor || c.frameBytesMax > FrameBytesCeiling:
		return fmt.Errorf("frames of %d bytes: limit frame_bytes_max is %d to %d",
			c.frameBytesMax, wire.FrameBytesFloor, FrameBytesCeiling)
	case c.valueBytesMax != 0 && c.valueBytesMax < wire.FrameBytesFloor || c.valueBytesMax > wire.ValueBytesMaxCeiling:
		return fmt.Errorf("values of %d bytes: limit value_bytes_max is %d to %d",
			c.valueBytesMax, wire.FrameBytesFloor, wire.ValueBytesMaxCeiling)
	case c.spin > spin.Dedicated:
		return fmt.Errorf("%v: it must be spin.Auto, spin.Off or spin.Dedicated", c.spin)
	case c.direct > DirectAny:
		return fmt.Errorf("direct %d: it must be client.DirectLocal, DirectOff or DirectAny", c.direct)
	case c.drift > DriftIgnored:
		return fmt.Errorf("drift %d: it must be client.DriftRefused, DriftLogged or DriftIgnored", c.drift)
	case len(c.name) > softwareBytesMax:
		return fmt.Errorf("a name of %d bytes: at most %d travel", len(c.name), softwareBytesMax)
	}
	return nil
}

// softwareBytesMax bounds the name so that the hello has room for further extensions.
const softwareBytesMax = 255

// WithTimeout sets the time that a call may take, from its beginning, if its context
// has no deadline. The default is 30 seconds.
func WithTimeout(timeout time.Duration) Option {
	return func(c *config) { c.timeout = timeout }
}

// WithConnectTimeout bounds the time that a call may spend on connecting. By default
// only the deadline of the call does. If the address has several endpoints, this bounds each
// of them, as WithEndpointConnectTimeout does.
func WithConnectTimeout(timeout time.Duration) Option {
	return func(c *config) { c.connectTimeout = timeout }
}

// WithEndpointConnectTimeout bounds the time that connecting to one of several endpoints may
// take before a call goes to another one. It is one millisecond to five minutes, and one second
// by default. A call never spends more than half of the time that it has left on one endpoint
// if there are others. The last endpoint that is left has all the time of the call, and so has
// one without others.
func WithEndpointConnectTimeout(timeout time.Duration) Option {
	return func(c *config) { c.endpointConnect = timeout }
}

// WithAttempts sets how many times a call may be sent in all, within its deadline, as
// long as it is certain that it was not executed. It is 1 to 16; 1 means that nothing
// is sent again. The default is 3.
func WithAttempts(attempts int) Option {
	return func(c *config) { c.attemptsMax = attempts }
}

// WithFrameBytesMax sets the size of the largest reply that is accepted, from 64 KiB to
// FrameBytesCeiling. The default is 4 MiB. The server does not send a larger result: the
// call fails with RESOURCE_EXHAUSTED.
func WithFrameBytesMax(bytes int) Option {
	return func(c *config) { c.frameBytesMax = bytes }
}

// WithValueBytesMax accepts replies that are larger than WithFrameBytesMax says, up to so many
// bytes, and at most 1 GiB, from local servers that were told to use memory files for what is so
// large (server.WithValueBytesMax). Without it the size of a frame is the limit. How large
// requests may be is for the server to say.
func WithValueBytesMax(bytes int) Option {
	return func(c *config) { c.valueBytesMax = bytes }
}

// WithAbstractAddresses permits addresses in the abstract namespace, "unix:@name". They
// are refused by default, because any user of the machine can take such a name.
func WithAbstractAddresses() Option {
	return func(c *config) { c.allowAbstract = true }
}

// WithAnyServerUser accepts a local server that runs as any user. By default the
// server's user must be root, the caller's own user, the owner of the directory with
// the socket, or one of those of WithServerUsers. Nothing is sent to a server that runs
// as anybody else.
func WithAnyServerUser() Option {
	return func(c *config) { c.anyServerUser = true }
}

// WithDialer makes connections by calling dial instead of connecting to the address, for
// example through a tunnel or in a test. dial is given the address that the client was made
// for. It is called by one goroutine at a time, and must return when its context ends. If the
// address has several endpoints, dial is given one of them, and is called by one goroutine at
// a time for each.
//
// It must return a connection of package net, which has a descriptor of the kernel. Any other
// connection, such as one of crypto/tls or of net.Pipe, is refused before anything is sent. For
// a tls: address, TLS is spoken on the connection that dial returns. The user that a local server
// runs as is checked as without a dialer: see WithAnyServerUser.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(c *config) { c.dial = dial }
}

// A Secure makes the connections to tls: addresses. Package client/clienttls makes one. No
// other package can, because the methods that it needs may change.
type Secure interface{ transport.Securing }

// WithSecure lets the client call servers at tls: addresses. clienttls.With is the usual way
// to set it.
func WithSecure(secure Secure) Option {
	return func(c *config) { c.secure = secure }
}

// SilenceOff is a value for WithSilence.
const SilenceOff = address.SilenceOff

// WithSilence sets for how long a server on another machine may say nothing while a call waits
// for it, from 100 ms to 5 minutes. The connection has then ended, and the call fails with
// UNAVAILABLE. The server is asked (PING) after 300 ms, or after a third of that time if this is
// less. It answers at once, however long a function takes, so silence means that the server, its
// machine or the way there is gone. The parameter silence of an address does the same, and
// WithSilence goes before it. By default that is one second if the address has several endpoints.
// A host name that has several addresses counts as several endpoints. With one endpoint, and with
// SilenceOff, only the kernel watches: a machine that does not answer it for 30 seconds has gone.
func WithSilence(silence time.Duration) Option {
	return func(c *config) { c.silence = silence }
}

// WithPlainRefused refuses to call over TCP beyond this machine, which anybody on the way can
// read. Such a call fails with FAILED_PRECONDITION before anything is sent. Without it the
// client logs a warning with its first such connection, if it has a logger (WithLogger), unless
// the address says plain=quiet.
func WithPlainRefused() Option {
	return func(c *config) { c.plainRefused = true }
}

// WithServerUsers adds user ids that a local server may run as.
func WithServerUsers(userIDs ...uint32) Option {
	return func(c *config) { c.serverUsers = append(c.serverUsers, userIDs...) }
}

// WithoutSharedMemory makes all calls travel through the socket. The address parameter
// shm=off does the same.
func WithoutSharedMemory() Option {
	return func(c *config) { c.memoryOff = true }
}

// WithSpin sets how calls wait for replies through shared memory. With spin.Auto, the
// default, the address parameter spin decides.
func WithSpin(mode spin.Mode) Option {
	return func(c *config) { c.spin = mode }
}

// WithName sets the name by which this program introduces itself, for the log of the
// server.
func WithName(name string) Option {
	return func(c *config) { c.name = name }
}

// WithInterceptor adds a function that runs around every call, through whatever view it is
// made: around all attempts of it, and within its deadline. The interceptor that is added
// first is the outermost. Ping, Describe and Schema are not calls. See package intercept.
func WithInterceptor(interceptor intercept.Interceptor) Option {
	return func(c *config) { c.interceptors = append(c.interceptors, interceptor) }
}

// WithObserver adds an observer, which is told of connections and calls: see package
// observe. Ping and Describe are not calls.
func WithObserver(observer *observe.Observer) Option {
	return func(c *config) { c.observer = observe.Join(c.observer, observer) }
}

// WithLogger sets where the client logs; by default it does not. It logs
// connections that open (debug), are lost (info) and break the protocol (warn),
// and plain TCP to another machine (warn), never payloads.
func WithLogger(logger *slog.Logger) Option {
	return func(c *config) { c.logger = logger }
}
