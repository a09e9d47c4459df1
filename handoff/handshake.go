package handoff

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nearcall/nearcall/handoff/internal/channel"
	"github.com/nearcall/nearcall/handoff/internal/frame"
	"github.com/nearcall/nearcall/internal/wire"
)

// Credentials are what the kernel says about a peer, as of the moment when it
// connected. Use the process id for logs only: it may belong to another process by now.
type Credentials struct {
	ProcessID int32
	UserID    uint32
	GroupID   uint32
}

// overflowUserID stands for a user that has no number in this user namespace.
const overflowUserID = 65534

// admits returns an error unless the peer's user is root, this process's own, or one of
// those that were named.
func (c *config) admits(peer Credentials) error {
	if slices.Contains(c.users, peer.UserID) {
		return nil
	}
	if peer.UserID != overflowUserID && (peer.UserID == 0 || peer.UserID == uint32(os.Geteuid())) {
		return nil
	}
	return fmt.Errorf("%w: process %d is of user %d; allow it by WithPeerUsers(%d)", os.ErrPermission, peer.ProcessID, peer.UserID, peer.UserID)
}

func (l *link) hello() frame.Hello {
	h := frame.Hello{Lowest: frame.Version, Highest: frame.Version, Process: uint32(os.Getpid()),
		Takes: l.inbox.takes(), Window: uint32(l.config.window),
		PrefixBytesMax: uint32(l.config.prefixBytesMax), MessageBytesMax: uint32(l.config.messageBytesMax)}
	if l.config.listeners != nil {
		h.Takes |= frame.TakesRequests
	}
	return h
}

// open exchanges hellos on the side that connected, and begins to read.
func (l *link) open(ctx context.Context) error {
	if err := l.sendHello(ctx, l.hello()); err != nil {
		return err
	}
	// Only the context knows its deadline: to the reader it would look as if the peer
	// had broken the protocol.
	stop := context.AfterFunc(ctx, l.channel.End)
	peer, err := l.reader.Hello(time.Now().Add(wire.HelloTimeoutMs * time.Millisecond))
	if !stop() {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if peer.Highest != frame.Version {
		return fmt.Errorf("%w: the peer refused the channel: %s", ErrRefused, peer.Refusal)
	}
	l.begin(peer)
	return nil
}

// answer exchanges hellos on the side that listens, and begins to read.
func (l *link) answer(admitted error) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), wire.HelloTimeoutMs*time.Millisecond, os.ErrDeadlineExceeded)
	defer cancel()
	peer, err := l.reader.Hello(time.Now().Add(wire.HelloTimeoutMs * time.Millisecond))
	if err != nil {
		return errors.Join(admitted, err)
	}
	hello := l.hello()
	refusal := admitted
	if peer.Lowest > frame.Version || peer.Highest < frame.Version {
		refusal = fmt.Errorf("versions %d to %d are asked for, this side speaks %d", peer.Lowest, peer.Highest, frame.Version)
	}
	if refusal != nil {
		hello.Lowest, hello.Highest, hello.Refusal = 0, 0, refusal.Error()
	}
	if err := errors.Join(l.sendHello(ctx, hello), refusal); err != nil {
		return err
	}
	l.begin(peer)
	return nil
}

func (l *link) sendHello(ctx context.Context, hello frame.Hello) error {
	if err := l.enterSending(ctx); err != nil {
		return err
	}
	defer l.leaveSending()
	l.encoded = hello.Append(l.encoded[:0])
	return l.sendEncoded(ctx, channel.NoDescriptor)
}

func (l *link) begin(peer frame.Hello) {
	l.peer = peer
	l.replies = make(chan frame.Frame, repliesMax)
	l.window = make(chan struct{}, min(max(peer.Window, 1), wire.HandoffWindowCeiling))
	go l.read()
	go l.writeReplies()
}
