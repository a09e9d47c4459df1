package bus

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/internal/wire"
)

const (
	// messageOverhead is what a message has at most beside its bytes, with its subjects.
	messageOverhead = 1 << 10
	// pendingMessagesMax is how many messages may wait until the hub receives them, and their bytes
	// may be those of all whole windows. Peers that keep to their windows stay far below, and others
	// could fill the memory. What is dropped is missed as any message that was lost.
	pendingMessagesMax = 128 << 10
	// How the engine is watched, and how it is connected to again.
	enginePing    = time.Second
	enginePings   = 2
	engineTimeout = time.Second
	engineWait    = 100 * time.Millisecond
)

// Options are those with which a program has to connect to NATS. A message that cannot be sent at
// once must never be sent later: its sender is told that it was not sent, or gives it up. So
// nothing is kept while the engine is not there. A dead engine is noticed within about two
// seconds.
func Options() []nats.Option {
	return []nats.Option{
		nats.ReconnectBufSize(-1), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(engineWait), nats.ReconnectJitter(engineWait, engineWait),
		nats.PingInterval(enginePing), nats.MaxPingsOutstanding(enginePings),
		nats.Timeout(engineTimeout), nats.FlusherTimeout(engineTimeout),
	}
}

// Attach makes a hub of a connection to NATS, which must have been made with Options. If the engine
// takes smaller messages than config.MessageBytes, what it takes at the time is the limit. The hub
// uses the connection's handler of disconnections, and calls the former one as well. Other hubs can dial this
// one as soon as the engine has the subscription: Flush of the connection waits for that. Closing
// the hub leaves the connection open.
func Attach(connection *nats.Conn, config Config) (*Hub, error) {
	if size := connection.Opts.ReconnectBufSize; size >= 0 {
		return nil, fmt.Errorf("message bus: the connection to NATS keeps %d bytes to send them later; connect with the options of this package", size)
	}
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("message bus: %w", err)
	}
	hub, err := New(config, natsMedium{connection})
	if err != nil {
		return nil, err
	}
	a := &attachment{connection: connection}
	a.hub.Store(hub)
	if err := a.subscribe(hub); err != nil {
		return nil, fmt.Errorf("message bus: %w", err)
	}
	hub.detach = a.end
	former := connection.Opts.DisconnectedErrCB
	connection.SetDisconnectErrHandler(func(c *nats.Conn, err error) {
		if hub := a.hub.Load(); hub != nil {
			hub.Lost(err)
		}
		if former != nil {
			former(c, err)
		}
	})
	return hub, nil
}

// An attachment is what a connection to NATS has of a hub, until that is closed. The connection may
// live longer, and have other hubs.
type attachment struct {
	connection   *nats.Conn
	hub          atomic.Pointer[Hub] // nil when it was closed
	subscription *nats.Subscription
}

func (a *attachment) subscribe(hub *Hub) (err error) {
	a.subscription, err = a.connection.Subscribe(hub.Subject(), func(m *nats.Msg) {
		hub.Receive(m.Subject, m.Reply, m.Data, isNobody(m))
	})
	if err != nil {
		return err
	}
	if err := a.subscription.SetPendingLimits(pendingMessagesMax, streamsAtFullWindow*hub.config.WindowBytes); err != nil {
		a.end()
		return err
	}
	return nil
}

// end makes the engine tell other hubs that nobody is here any more.
func (a *attachment) end() {
	a.hub.Store(nil)
	// If this fails the connection was closed, and with it the subscription.
	_ = a.subscription.Unsubscribe()
}

// isNobody reports whether a message is the engine's, about a message that nobody was there to
// receive.
func isNobody(m *nats.Msg) bool { return len(m.Data) == 0 && m.Header.Get("Status") == "503" }

type natsMedium struct{ connection *nats.Conn }

// Publish implements Medium.
func (m natsMedium) Publish(subject, reply string, message []byte) error {
	if reply == "" {
		return m.connection.Publish(subject, message)
	}
	return m.connection.PublishRequest(subject, reply, message)
}

// MessageBytes implements Medium. The engine says how large messages may be whenever it is connected
// to. Before the first time that is not known, and nothing can be published.
func (m natsMedium) MessageBytes() int {
	most := m.connection.MaxPayload()
	if most == 0 {
		return wire.BusMessageBytesMax
	}
	return int(most) - messageOverhead
}
