package handoff

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nearcall/nearcall/handoff/internal/channel"
	"github.com/nearcall/nearcall/handoff/internal/frame"
	"github.com/nearcall/nearcall/internal/wire"
)

// A Listener takes what other processes give. It is a net.Listener whose connections
// are *Conn, so http.Server.Serve, tls.NewListener and others use it like a TCP
// listener. Its methods may be called from any number of goroutines.
type Listener struct {
	config *config
	socket net.Listener
	inbox  inbox
	// failure is what was wrong with the options of ListenOn. A Listener that has one
	// accepts nothing.
	failure error

	channels *tally // channels that are served
	refused  *tally // channels that are being told why they are refused
	waiting  *tally // bare descriptors that wait to be accepted

	mu      sync.Mutex
	links   map[*link]struct{}
	closed  bool
	opening sync.WaitGroup // hellos and links that are being read
}

// Listen listens for givers at an address, such as "unix:/path". It makes the socket by
// the rules of spec/transports.md: a lock shows that the address is in use, and nobody
// can connect before the socket has its permissions.
func Listen(address string, options ...Option) (*Listener, error) {
	c := newConfig(options)
	if err := c.check(); err != nil {
		return nil, &Error{Op: "listen", Address: address, Err: err}
	}
	socket, err := listenAt(address, c)
	if err != nil {
		return nil, &Error{Op: "listen", Address: address, Err: err}
	}
	return newListener(socket, c), nil
}

func newListener(socket net.Listener, c *config) *Listener {
	l := &Listener{config: c, socket: socket, links: make(map[*link]struct{}),
		inbox:    newInbox(frame.Connection, frame.Listener, frame.File),
		channels: newTally(), refused: newTally(), waiting: newTally()}
	if l.failure = c.check(); l.failure != nil {
		_ = socket.Close()
		return l
	}
	l.opening.Go(l.acceptChannels)
	return l
}

func (l *Listener) acceptChannels() {
	var told time.Time
	for {
		socket, err := l.socket.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if now := time.Now(); now.Sub(told) > acceptComplaintEach {
				told = now
				l.config.logger.Warn("handoff: cannot accept a channel; trying again", "error", err)
			}
			// The shortage will pass, but nothing tells when.
			time.Sleep(acceptPause)
			continue
		}
		l.opening.Go(func() { l.serve(socket) })
	}
}

// acceptPause is how long a listener that is short of descriptors waits before it
// accepts again.
const acceptPause = 10 * time.Millisecond

// acceptComplaintEach is how often the log says so.
const acceptComplaintEach = 10 * time.Second

// serve runs a channel from its hello to its end.
func (l *Listener) serve(socket net.Conn) {
	ch, credentials, err := channelOver(socket)
	if err != nil {
		l.config.logger.Warn("handoff: a channel without a known peer", "error", err)
		return
	}
	counted, admitted := l.admit(credentials)
	if counted == nil {
		_ = ch.Close()
		return
	}
	defer counted.leave(credentials.UserID)
	if admitted == nil {
		ch.Allow()
	}
	link := newLink(l.config, &l.inbox, ch)
	link.address, link.credentials = l.Addr().String(), credentials
	l.serveLink(link, admitted)
}

// admit counts a channel, and says why it is to be refused, if it is. A user may have
// as many refused channels at a time as channels. One beyond that is counted nowhere
// and gets no answer.
func (l *Listener) admit(peer Credentials) (counted *tally, refusal error) {
	most := l.config.channelsMax
	refusal = l.config.admits(peer)
	if refusal == nil {
		if l.channels.enter(peer.UserID, most) {
			return l.channels, nil
		}
		refusal = fmt.Errorf("user %d has %d channels already (limit handoff_channels_per_user_max); the option WithChannelsPerUser raises it to at most %d", peer.UserID, most, wire.HandoffChannelsPerUserMaxCeiling)
	}
	if l.refused.enter(peer.UserID, most) {
		return l.refused, refusal
	}
	return nil, refusal
}

func (l *Listener) serveLink(link *link, admitted error) {
	process, user := link.credentials.ProcessID, link.credentials.UserID
	if l.config.bare && admitted == nil && l.takeBare(link) {
		return
	}
	if err := link.answer(admitted); err != nil {
		link.reader.Close() // of descriptors that came with it
		_ = link.channel.Close()
		l.config.logger.Warn("handoff: channel refused", "process", process, "user", user, "error", err)
		return
	}
	l.add(link)
	<-link.done
	l.remove(link)
	level := slog.LevelDebug
	if cause := link.err(); !errors.Is(cause, net.ErrClosed) {
		level = slog.LevelWarn
	}
	l.config.logger.Log(context.Background(), level, "handoff: channel ended", "process", process, "error", link.err())
}

// takeBare takes a descriptor from a peer that does not speak the protocol, and reports
// whether this was such a peer. If so, nothing else follows on its channel.
func (l *Listener) takeBare(k *link) bool {
	descriptor, err := k.reader.Bare(time.Now().Add(wire.HelloTimeoutMs * time.Millisecond))
	if err == nil && descriptor == channel.NoDescriptor {
		return false
	}
	defer func() { _ = k.channel.Close() }()
	defer k.reader.Close()
	if err != nil || descriptor == channel.Lost {
		l.config.logger.Warn("handoff: a connection was lost", "process", k.credentials.ProcessID, "error", err)
		return true
	}
	l.queueBare(k, descriptor)
	return true
}

// queueBare queues a bare descriptor. It closes one that finds no room, and its giver
// is not told.
func (l *Listener) queueBare(k *link, descriptor int) {
	k.bare = true
	user, queue := k.credentials.UserID, l.inbox[frame.Connection]
	a := &arrival{link: k, kind: frame.Connection, descriptor: descriptor, queue: queue,
		left: func() { l.waiting.leave(user) }}
	if !l.waiting.enter(user, l.config.bareMax) {
		closeArrival(a)
		l.config.logger.Warn("handoff: a connection was closed", "process", k.credentials.ProcessID, "error",
			fmt.Errorf("user %d has %d that wait to be accepted (limit handoff_bare_descriptors_per_user_max); the option WithBareDescriptorsPerUser raises it to at most %d", user, l.config.bareMax, wire.HandoffBareDescriptorsPerUserMaxCeiling))
		return
	}
	if !queue.put(a) {
		a.left()
		closeArrival(a)
	}
}

func (l *Listener) add(k *link) {
	l.mu.Lock()
	closed := l.closed
	l.links[k] = struct{}{}
	l.mu.Unlock()
	if closed {
		k.refuseAll(closedText)
	}
}

func (l *Listener) remove(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.links, k)
}

// closedText is the reason that givers are told.
const closedText = "the process stops listening"

// Accept waits for a connection, which is always a *Conn, and takes it: the giver is
// told before Accept returns. After Close it returns net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	if l.failure != nil {
		return nil, &net.OpError{Op: "accept", Net: "handoff", Addr: l.Addr(), Err: l.failure}
	}
	c, err := l.inbox[frame.Connection].acceptConn(context.Background())
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "handoff", Addr: l.Addr(), Err: err}
	}
	return c, nil
}

// AcceptListener waits for a listener. It belongs to the caller from then on.
func (l *Listener) AcceptListener(ctx context.Context) (net.Listener, Meta, error) {
	if l.failure != nil {
		return nil, Meta{}, l.failure
	}
	return l.inbox[frame.Listener].acceptListener(ctx)
}

// AcceptFile waits for a file. It belongs to the caller from then on.
func (l *Listener) AcceptFile(ctx context.Context) (*os.File, Meta, error) {
	if l.failure != nil {
		return nil, Meta{}, l.failure
	}
	return l.inbox[frame.File].acceptFile(ctx)
}

// Addr returns the address of the socket.
func (l *Listener) Addr() net.Addr { return l.socket.Addr() }

// Close makes the Listener take no more: givers are told, what nobody has accepted goes
// back to them, and Accept returns. Connections that were accepted live on. If they may
// go back to their giver, their channel stays until they are closed or handed back.
func (l *Listener) Close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	var links []*link
	for k := range l.links {
		links = append(links, k)
	}
	l.mu.Unlock()
	if !first {
		return nil
	}
	err := l.socket.Close()
	var refusing sync.WaitGroup // at the same time: a peer that does not read holds up nobody else
	for _, k := range links {
		refusing.Go(func() { k.refuseAll(closedText) })
	}
	refusing.Wait()
	l.inbox.close()
	return err
}

// Shutdown closes the Listener and waits until every channel has ended, which is when
// all connections that came by them are closed or handed back.
//
// To stop an http.Server use the function Shutdown instead, which does not lose a
// request.
func (l *Listener) Shutdown(ctx context.Context) error {
	err := l.Close()
	ended := make(chan struct{})
	go func() {
		l.opening.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
		return errors.Join(err, context.Cause(ctx))
	}
}
