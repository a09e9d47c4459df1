package handoff

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/nearcall/nearcall/internal/wire"
)

// An Option changes how a Peer or a Listener works. One with a value out of range is
// refused by what takes it, with an error that names it.
type Option func(*config)

type config struct {
	failures        []error
	window          int
	prefixBytesMax  int
	messageBytesMax int
	users           []uint32
	logger          *slog.Logger
	mode            fs.FileMode
	takeBack        func(*Conn)
	listeners       func(name string) []Item
	bare            bool
	channelsMax     int // of each user
	bareMax         int // of each user
}

func newConfig(options []Option) *config {
	c := &config{
		window:          wire.HandoffWindow,
		prefixBytesMax:  wire.HandoffPrefixBytesMax,
		messageBytesMax: wire.HandoffMessageBytesMax,
		logger:          slog.Default(),
		channelsMax:     wire.HandoffChannelsPerUserMax,
		bareMax:         wire.HandoffBareDescriptorsPerUserMax,
	}
	for _, option := range options {
		option(c)
	}
	return c
}

// set sets what an option changes, to what is in range.
func (c *config) set(option string, to *int, value, low, high int) {
	if value < low || value > high {
		c.failures = append(c.failures, fmt.Errorf("%s: %d is out of range (%d to %d)", option, value, low, high))
		return
	}
	*to = value
}

// check returns what was out of range.
func (c *config) check() error { return errors.Join(c.failures...) }

// WithWindow sets how many handoffs may wait for this side's answer on one channel
// (limit handoff_window).
func WithWindow(handoffs int) Option {
	return func(c *config) { c.set("WithWindow", &c.window, handoffs, 1, wire.HandoffWindowCeiling) }
}

// WithPrefixLimit sets the longest prefix that this side takes, in bytes (limit
// handoff_prefix_bytes_max).
func WithPrefixLimit(bytes int) Option {
	return func(c *config) {
		c.set("WithPrefixLimit", &c.prefixBytesMax, bytes, 0, wire.HandoffPrefixBytesMaxCeiling)
	}
}

// WithMessageLimit sets the longest message that this side takes, in bytes (limit
// handoff_message_bytes_max).
func WithMessageLimit(bytes int) Option {
	return func(c *config) {
		c.set("WithMessageLimit", &c.messageBytesMax, bytes, 0, wire.HandoffMessageBytesMaxCeiling)
	}
}

// WithPeerUsers allows peers of these users besides root and this process's own.
func WithPeerUsers(users ...uint32) Option {
	return func(c *config) { c.users = append(c.users, users...) }
}

// WithLogger sets where a Listener says what became of channels; the default is
// slog.Default().
func WithLogger(logger *slog.Logger) Option { return func(c *config) { c.logger = logger } }

// WithMode sets the permissions of a Listener's socket; the default is 0660.
func WithMode(mode fs.FileMode) Option { return func(c *config) { c.mode = mode } }

// WithTakeBack lets the peer that was dialled hand connections back. take is called
// with each in a goroutine of its own and owns it.
func WithTakeBack(take func(*Conn)) Option { return func(c *config) { c.takeBack = take } }

// WithListeners lets peers ask for what this process listens on (Takeover). give
// returns the listener of a name, or all for the empty name; they stay the
// process's own, which closes them when it has stopped accepting.
func WithListeners(give func(name string) []Item) Option {
	return func(c *config) { c.listeners = give }
}

// WithBareDescriptors also takes connections from programs that know no protocol: they
// connect, send one byte with the descriptor, and close, as Apache's mod_proxy_fdpass
// does. Such a connection is owned from the moment it was sent: it is lost when this
// process ends before it has accepted it, or has as many of its user that wait as it
// may (WithBareDescriptorsPerUser).
func WithBareDescriptors() Option { return func(c *config) { c.bare = true } }

// WithChannelsPerUser sets how many channels givers of one user may have at a Listener
// (limit handoff_channels_per_user_max). One more is refused, and told why.
func WithChannelsPerUser(channels int) Option {
	return func(c *config) {
		c.set("WithChannelsPerUser", &c.channelsMax, channels, 1, wire.HandoffChannelsPerUserMaxCeiling)
	}
}

// WithBareDescriptorsPerUser sets how many connections of WithBareDescriptors may wait
// for Accept, for each user (limit handoff_bare_descriptors_per_user_max). One more is
// closed: its giver hears nothing.
func WithBareDescriptorsPerUser(descriptors int) Option {
	return func(c *config) {
		c.set("WithBareDescriptorsPerUser", &c.bareMax, descriptors, 1, wire.HandoffBareDescriptorsPerUserMaxCeiling)
	}
}
