package handoff

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/nearcall/nearcall/internal/wire"
)

// An Option configures a Peer or a Listener. If its value is out of range, the function
// that takes it returns an error that names it; ListenOn leaves that to Accept.
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
	channelsMax     int // for each user
	bareMax         int // for each user
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

// set sets the value of an option. A value out of range is not set, and becomes an
// error.
func (c *config) set(option string, to *int, value, low, high int) {
	if value < low || value > high {
		c.failures = append(c.failures, fmt.Errorf("%s: %d is out of range (%d to %d)", option, value, low, high))
		return
	}
	*to = value
}

// check returns an error for the options whose values were out of range.
func (c *config) check() error { return errors.Join(c.failures...) }

// WithWindow sets how many handoffs may wait for this side's answer on one channel: 64
// by default, at most 240 (limit handoff_window).
func WithWindow(handoffs int) Option {
	return func(c *config) { c.set("WithWindow", &c.window, handoffs, 1, wire.HandoffWindowCeiling) }
}

// WithPrefixLimit sets the longest prefix that this side takes: 64 KiB by default, at
// most 1 MiB (limit handoff_prefix_bytes_max).
func WithPrefixLimit(bytes int) Option {
	return func(c *config) {
		c.set("WithPrefixLimit", &c.prefixBytesMax, bytes, 0, wire.HandoffPrefixBytesMaxCeiling)
	}
}

// WithMessageLimit sets the longest message that this side takes: 64 KiB by default, at
// most 1 MiB (limit handoff_message_bytes_max).
func WithMessageLimit(bytes int) Option {
	return func(c *config) {
		c.set("WithMessageLimit", &c.messageBytesMax, bytes, 0, wire.HandoffMessageBytesMaxCeiling)
	}
}

// WithPeerUsers allows peers that run as these users, besides root and this process's
// own user.
func WithPeerUsers(users ...uint32) Option {
	return func(c *config) { c.users = append(c.users, users...) }
}

// WithLogger sets where a Listener logs what happens to channels. The default is
// slog.Default().
func WithLogger(logger *slog.Logger) Option { return func(c *config) { c.logger = logger } }

// WithMode sets the permissions of a Listener's socket. The default is 0660.
func WithMode(mode fs.FileMode) Option { return func(c *config) { c.mode = mode } }

// WithTakeBack lets the peer that is dialled hand connections back. take is called for
// each of them in a goroutine of its own, and the connection belongs to it.
func WithTakeBack(take func(*Conn)) Option { return func(c *config) { c.takeBack = take } }

// WithListeners lets peers ask for what this process listens on (see Takeover). give
// returns the listeners with a name, or all of them for the empty name. They still
// belong to this process, which closes them when it has stopped accepting.
func WithListeners(give func(name string) []Item) Option {
	return func(c *config) { c.listeners = give }
}

// WithBareDescriptors also takes connections from programs that do not speak the
// protocol: they connect, send one byte with the descriptor, and close, as Apache's
// mod_proxy_fdpass does. Such a giver does not keep the connection. It is lost if this
// process ends before it accepts it, or if too many connections of the same user
// already wait (see WithBareDescriptorsPerUser).
func WithBareDescriptors() Option { return func(c *config) { c.bare = true } }

// WithChannelsPerUser sets how many channels the givers of one user may have to a
// Listener: 1024 by default (limit handoff_channels_per_user_max). A giver that opens
// one more is refused, and told why.
func WithChannelsPerUser(channels int) Option {
	return func(c *config) {
		c.set("WithChannelsPerUser", &c.channelsMax, channels, 1, wire.HandoffChannelsPerUserMaxCeiling)
	}
}

// WithBareDescriptorsPerUser sets how many connections of WithBareDescriptors may wait
// for Accept, for each user: 256 by default (limit
// handoff_bare_descriptors_per_user_max). One more is closed, and its giver is not
// told.
func WithBareDescriptorsPerUser(descriptors int) Option {
	return func(c *config) {
		c.set("WithBareDescriptorsPerUser", &c.bareMax, descriptors, 1, wire.HandoffBareDescriptorsPerUserMaxCeiling)
	}
}
