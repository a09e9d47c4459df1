package client

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// Version is that of the product.
const Version = wire.ProductVersion

const (
	// DefaultTimeout is the deadline of calls that name none.
	DefaultTimeout = wire.CallTimeoutMs * time.Millisecond
	// FrameBytesCeiling is the most that WithFrameBytesMax takes.
	FrameBytesCeiling = wire.FrameBytesMaxCeiling
)

// NoTimeout as the timeout of WithTimeout lets calls wait for ever when their
// context has no deadline.
const NoTimeout time.Duration = -1

// An Option configures a Client.
type Option func(*config)

type config struct {
	timeout        time.Duration
	connectTimeout time.Duration
	attemptsMax    int
	frameBytesMax  int
	allowAbstract  bool
	anyServerUser  bool
	serverUsers    []uint32
	memoryOff      bool
	spin           Spin
	drift          Drift
	name           string
	logger         *slog.Logger
}

func defaultConfig() config {
	return config{
		timeout:       DefaultTimeout,
		attemptsMax:   wire.AttemptsMax,
		frameBytesMax: wire.FrameBytesMax,
		name:          "nearcall-go/" + Version,
		logger:        slog.New(slog.DiscardHandler),
	}
}

func (c *config) check() error {
	switch {
	case c.timeout <= 0 && c.timeout != NoTimeout:
		return fmt.Errorf("timeout %v: it must be positive, or client.NoTimeout", c.timeout)
	case c.connectTimeout < 0:
		return fmt.Errorf("connect timeout %v: it must not be negative", c.connectTimeout)
	case c.attemptsMax < 1 || c.attemptsMax > wire.AttemptsMaxCeiling:
		return fmt.Errorf("%d attempts: limit attempts_max is 1 to %d", c.attemptsMax, wire.AttemptsMaxCeiling)
	case c.frameBytesMax < wire.FrameBytesFloor || c.frameBytesMax > FrameBytesCeiling:
		return fmt.Errorf("frames of %d bytes: limit frame_bytes_max is %d to %d",
			c.frameBytesMax, wire.FrameBytesFloor, FrameBytesCeiling)
	case c.spin > SpinDedicated:
		return fmt.Errorf("spin %d: it must be client.SpinAuto, SpinOff or SpinDedicated", c.spin)
	case c.drift > DriftIgnored:
		return fmt.Errorf("drift %d: it must be client.DriftRefused, DriftLogged or DriftIgnored", c.drift)
	case len(c.name) > softwareBytesMax:
		return fmt.Errorf("a name of %d bytes: at most %d travel", len(c.name), softwareBytesMax)
	}
	return nil
}

// softwareBytesMax leaves room for further extensions of the hello.
const softwareBytesMax = 255

// WithTimeout sets the deadline of calls whose context has none, counted from
// the call's begin. The default is 30 seconds.
func WithTimeout(timeout time.Duration) Option {
	return func(c *config) { c.timeout = timeout }
}

// WithConnectTimeout bounds connecting within a call. Without it only the
// call's own deadline does.
func WithConnectTimeout(timeout time.Duration) Option {
	return func(c *config) { c.connectTimeout = timeout }
}

// WithAttempts sets how often a call that was certainly not executed is sent in
// all, within its deadline. 1 means never again; the default is 3.
func WithAttempts(attempts int) Option {
	return func(c *config) { c.attemptsMax = attempts }
}

// WithFrameBytesMax sets the largest reply accepted, in bytes. The default is
// 4 MiB, the most 16 MiB. The server sends a larger result not at all: the call
// fails with RESOURCE_EXHAUSTED.
func WithFrameBytesMax(bytes int) Option {
	return func(c *config) { c.frameBytesMax = bytes }
}

// WithAbstractAddresses accepts addresses in the abstract namespace,
// "unix:@name". Any user of the machine can take such a name, so they are
// refused without it.
func WithAbstractAddresses() Option {
	return func(c *config) { c.allowAbstract = true }
}

// WithAnyServerUser talks to a local server of any user. Without it the
// server's user must be root, the caller's own, the owner of the socket's
// directory, or one of WithServerUsers; nothing is sent to any other.
func WithAnyServerUser() Option {
	return func(c *config) { c.anyServerUser = true }
}

// WithServerUsers adds user ids that a local server may run as.
func WithServerUsers(userIDs ...uint32) Option {
	return func(c *config) { c.serverUsers = append(c.serverUsers, userIDs...) }
}

// WithoutSharedMemory calls through the socket only. The parameter shm=off of
// the address does the same.
func WithoutSharedMemory() Option {
	return func(c *config) { c.memoryOff = true }
}

// A Spin says how a goroutine that waits for a reply through shared memory does
// so: see the guide docs/guides/shared-memory.md.
type Spin uint8

// The ways to wait. They are those of the address parameter spin, which counts
// where the option is not given.
const (
	// SpinAuto spins where that makes calls faster.
	SpinAuto Spin = iota
	// SpinOff sleeps at once: least CPU, a few microseconds more per call.
	SpinOff
	// SpinDedicated never sleeps while a call waits: that takes a CPU.
	SpinDedicated
)

// WithSpin sets how replies through shared memory are waited for; the default
// is SpinAuto.
func WithSpin(spin Spin) Option {
	return func(c *config) { c.spin = spin }
}

// WithName sets what this program calls itself, for the server's log.
func WithName(name string) Option {
	return func(c *config) { c.name = name }
}

// WithLogger sets where the client logs; by default it does not. It logs
// connections that open (debug), are lost (info) and break the protocol (warn),
// never payloads.
func WithLogger(logger *slog.Logger) Option {
	return func(c *config) { c.logger = logger }
}
