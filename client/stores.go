package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

const (
	// storeChunk is how much is copied before a call looks at its deadline.
	storeChunk = 4 << 20
	// Pauses before a store is asked for again while the server has given out all that it may.
	storePauseMin = time.Millisecond
	storePauseMax = 50 * time.Millisecond
	// The server keeps a store for as long, so that both sides give it up at about the same time.
	storeIdle = wire.StoreIdleMs * time.Millisecond
)

// A heldStore is a store that the connection has. It is closed when nobody uses it any more and it
// was replaced, or it is for requests, whose memory this side has written, and was idle for a while.
type heldStore struct {
	*sharedmemory.Store
	users    int
	replaced bool
	idle     *time.Timer
}

// A storeTable holds the stores of a connection that this side has descriptors of. Any goroutine
// may use it.
type storeTable struct {
	// valueBytesMax is the largest payload that the server takes in a store, 0 for none.
	valueBytesMax uint64
	// requests has room for each call that may use a store for its request.
	requests chan struct{}
	trusted  bool

	mu     sync.Mutex
	closed bool
	held   [wire.StorePlaces]*heldStore
}

// A storedPayload is a use of a store: one that a request may be written to, or one in which a
// reply lies. failure is why it cannot be used.
type storedPayload struct {
	wire.Stored
	store   *heldStore
	failure error
}

func (t *storeTable) init(valueBytesMax uint64, trusted bool) {
	t.valueBytesMax, t.trusted = valueBytesMax, trusted
	t.requests = make(chan struct{}, wire.StoresPerDirection)
}

// use returns the store at a place, in use until done is called, or nil if there is none.
func (t *storeTable) use(place uint32) *heldStore {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.held[place]
	if s != nil {
		s.users++
	}
	return s
}

// done ends a use of a store that was at this place.
func (t *storeTable) done(place uint32, s *heldStore) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.users--
	s.closeIfGone()
	if s.replaced || s.users > 0 || place >= wire.StoresPerDirection {
		return
	}
	if s.idle == nil {
		s.idle = time.AfterFunc(storeIdle, func() { t.expire(place, s) })
		return
	}
	s.idle.Reset(storeIdle)
}

// expire closes a store that nobody uses.
func (t *storeTable) expire(place uint32, s *heldStore) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[place] == s && s.users == 0 {
		t.held[place], s.replaced = nil, true
		s.closeIfGone()
	}
}

func (s *heldStore) closeIfGone() {
	if s.replaced && s.users == 0 {
		_ = s.Close()
	}
}

// replace puts a store at a place.
func (t *storeTable) replace(place uint32, made *heldStore) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if former := t.held[place]; former != nil {
		former.replaced = true
		former.closeIfGone()
	}
	if t.held[place] = made; made != nil && t.closed {
		made.replaced = true
		made.closeIfGone()
	}
}

// close lets go of all stores. Calls that still read from one go on.
func (t *storeTable) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	for place := range t.held {
		t.replace(uint32(place), nil)
	}
}

// storedIn finds out whether the payload of a reply lies in a store, and takes the descriptor of
// a store that came with it.
func (c *connection) storedIn(frame *wire.Frame, came *transport.Descriptors) (*storedPayload, error) {
	if c.welcome.Accepted&wire.FeatureStores == 0 {
		return nil, nil
	}
	said, found, valid := wire.FindStored(frame)
	switch {
	case !found && frame.Descriptors > 0 && c.welcome.Accepted&wire.FeatureDescriptors == 0:
		return nil, &wire.ProtocolError{Text: "a REPLY with a descriptor and without a store"}
	case !found:
		return nil, nil
	case !valid || frame.Descriptors > wire.StoreDescriptors:
		return nil, &wire.ProtocolError{Text: fmt.Sprintf("a REPLY whose payload lies in place %d, %d bytes, with a payload of its own of %d bytes and %d descriptors",
			said.Place, said.Bytes, len(frame.Payload), frame.Descriptors)}
	}
	p := &storedPayload{Stored: said}
	if frame.Descriptors > 0 {
		p.failure = c.attachStore(said.Place, came)
	}
	if p.failure == nil {
		p.store = c.stores.use(said.Place)
	}
	switch {
	case p.failure != nil:
	case p.store == nil:
		p.failure = errNoStore
	case said.Bytes > uint64(p.store.Bytes()):
		p.failure = fmt.Errorf("the server says that %d bytes lie in a store that has %d", said.Bytes, p.store.Bytes())
	}
	return p, nil
}

// errNoStore says that this side has no store where the server takes it to have one.
var errNoStore = errors.New("the server has sent no store")

func (c *connection) attachStore(place uint32, came *transport.Descriptors) error {
	if len(came.Numbers) != wire.StoreDescriptors {
		c.stores.replace(place, nil)
		return errors.New("the descriptor did not arrive; does this process have more of them open than RLIMIT_NOFILE (ulimit -n) lets it?")
	}
	store, err := sharedmemory.AttachStore(came.Numbers[0], place < wire.StoresPerDirection, c.stores.trusted)
	if err != nil {
		c.stores.replace(place, nil)
		return err
	}
	came.Numbers = nil
	c.stores.replace(place, &heldStore{Store: store})
	return nil
}

// giveBack tells the server that a use of a store is over. It does nothing for nil.
func (c *connection) giveBack(p *storedPayload) {
	if p == nil {
		return
	}
	c.stores.done(p.Place, p.store)
	release := wire.StoreRelease{Place: p.Place, Serial: p.Serial, Forget: p.store == nil}
	c.mu.Lock()
	writer := c.appendLocked(&wire.Frame{Header: wire.Header{Type: wire.Release}, Payload: release.Append(nil)})
	c.mu.Unlock()
	if writer {
		c.flush()
	}
}

// takesMore reports whether arguments that no frame holds may be encoded after all, because the
// server takes so much in stores.
func (c *core) takesMore(ctx context.Context, r *call, failure *status.Error) bool {
	if !errors.Is(failure, msgpack.ErrTooLarge) || r.options.failure != nil {
		return false
	}
	r.startNs = c.clock.Ns()
	r.deadlineNs = c.deadline(ctx, r)
	current, unreached := c.reach(ctx, r)
	if unreached != nil || current.stores.valueBytesMax <= wire.FrameBytesMaxCeiling {
		return false
	}
	r.beside.Drop()
	r.beside.BytesMax = int(current.stores.valueBytesMax)
	return true
}

// takesStored reports whether a request with a payload of so many bytes may travel in a store.
func (c *connection) takesStored(r *call) bool {
	return r.frameType == wire.Request && r.header.Descriptors == 0 && uint64(r.payloadBytes()) <= c.stores.valueBytesMax
}

// exchangeStored is perform for a request whose payload travels in a store.
func (c *connection) exchangeStored(ctx context.Context, r *call) (failure *status.Error, usable bool) {
	timer := c.client.timer(r.deadlineNs)
	defer timer.Stop()
	select {
	case c.stores.requests <- struct{}{}:
	case <-c.left:
		return nil, false
	case <-ctx.Done():
		return endOfWaiting(ctx, "while waiting for a store").With(status.OutcomeNotExecuted), true
	case <-timer.C:
		return endOfWaiting(ctx, "while waiting for a store").With(status.OutcomeNotExecuted), true
	}
	defer func() { <-c.stores.requests }()
	store, failure, usable := c.askForStore(ctx, r)
	if failure != nil || !usable {
		return failure, usable
	}
	if failure, usable = c.writeStore(ctx, r, store); failure == nil && usable {
		failure, usable = c.performStored(ctx, r, store)
	}
	if !usable || failure != nil && failure.Outcome == status.OutcomeNotExecuted {
		// If the server has had the request it has the store back already, and ignores this.
		c.giveBack(store)
	} else {
		c.stores.done(store.Place, store.store)
	}
	return failure, usable
}

// performStored sends the request without its payload. If there is another attempt, that needs the
// payload again.
func (c *connection) performStored(ctx context.Context, r *call, store *storedPayload) (failure *status.Error, usable bool) {
	r.head = wire.AppendStored(r.head, wire.Stored{Place: store.Place, Serial: store.Serial, Bytes: uint64(r.payloadBytes())})
	r.header.ExtensionBytes = uint32(len(r.head) - wire.HeaderBytes)
	if r.header.ExtensionBytes > wire.ExtensionBytesMax {
		return tooManyExtensions(r.header.ExtensionBytes), true
	}
	store.Bytes = uint64(r.payloadBytes())
	payload, pieces := r.payload, r.beside.Pieces
	defer func() { r.payload, r.beside.Pieces = payload, pieces }()
	r.payload, r.beside.Pieces = nil, nil
	r.header.Length = r.header.ExtensionBytes
	r.header.Deadline = c.deadlineField(r)
	c.countStored(store.Bytes, 0)
	return c.perform(ctx, r)
}

// countStored counts what travels beside frames.
func (c *connection) countStored(sent, received uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.traffic.sentBytes += sent
	c.traffic.receivedBytes += received
}

// askForStore asks the server for a store. Whatever goes wrong, the function was not executed.
func (c *connection) askForStore(ctx context.Context, r *call) (store *storedPayload, failure *status.Error, usable bool) {
	for pause := storePauseMin; ; pause = min(2*pause, storePauseMax) {
		store, failure, usable = c.askOnce(ctx, r)
		for missing := 0; missing < wire.StoresPerDirection && failure != nil && errors.Is(failure, errNoStore); missing++ {
			// This side has closed it because it did not use it, and perhaps the others, too. The
			// server has been told of this one. In the end it makes another one.
			store, failure, usable = c.askOnce(ctx, r)
		}
		if failure == nil || !isCrowded(failure) || !c.sleep(ctx, r, pause) {
			return store, failure, usable
		}
	}
}

func (c *connection) askOnce(ctx context.Context, r *call) (*storedPayload, *status.Error, bool) {
	q := c.client.take()
	defer c.client.give(q)
	q.frameType, q.codec, q.name, q.options = wire.Store, wire.CodecRaw, r.name, r.options
	q.payload = wire.AppendStoreAsk(nil, uint64(r.payloadBytes()))
	q.startNs, q.deadlineNs = c.client.clock.Ns(), r.deadlineNs
	failure, usable := c.exchange(ctx, q)
	switch {
	case failure != nil:
		return nil, failure.With(status.OutcomeNotExecuted), usable
	case !usable:
		return nil, nil, false
	case q.stored == nil:
		return nil, notExecuted(status.Internal, "the server answered a STORE without one"), true
	}
	store := q.stored
	q.stored = nil
	if store.failure == nil && store.Place >= wire.StoresPerDirection {
		store.failure = fmt.Errorf("place %d is for replies", store.Place)
	}
	if store.failure == nil && store.store.Bytes() < int64(r.payloadBytes()) {
		store.failure = fmt.Errorf("the store has %d bytes", store.store.Bytes())
	}
	if store.failure != nil {
		c.giveBack(store)
		return nil, notExecuted(status.ResourceExhausted, "the arguments take %d bytes, and the store for them cannot be used: %w", r.payloadBytes(), store.failure), true
	}
	return store, nil, true
}

// limitDetail is the type of the detail that names the limit for which a call was refused.
const limitDetail = "nearcall.limit"

// isCrowded reports whether there is room for a store as soon as another call has ended.
func isCrowded(failure *status.Error) bool {
	if failure.Code != status.ResourceExhausted {
		return false
	}
	for _, detail := range failure.Details {
		if detail.Type == limitDetail && detail.Value == "stores_per_direction" {
			return true
		}
	}
	return false
}

// sleep waits for a while, and reports whether the call has time left.
func (c *connection) sleep(ctx context.Context, r *call, pause time.Duration) bool {
	timer := time.NewTimer(min(pause, c.client.remaining(r.deadlineNs)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return c.client.remaining(r.deadlineNs) > 0
	case <-ctx.Done():
	case <-c.left:
	}
	return false
}

// writeStore copies the payload of a request into its store.
func (c *connection) writeStore(ctx context.Context, r *call, store *storedPayload) (failure *status.Error, usable bool) {
	at := int64(0)
	for _, part := range r.frameParts(nil) {
		for len(part) > 0 {
			chunk := part[:min(len(part), storeChunk)]
			if err := store.store.Write(at, chunk); err != nil {
				return notExecuted(status.ResourceExhausted, "the arguments cannot be written to the server's store: %w", err), true
			}
			at, part = at+int64(len(chunk)), part[len(chunk):]
			select {
			case <-c.left:
				return nil, false
			default:
			}
			if c.isOver(ctx, r) {
				return endOfWaiting(ctx, "while the arguments were copied").With(status.OutcomeNotExecuted), true
			}
		}
	}
	return nil, true
}

func (c *connection) isOver(ctx context.Context, r *call) bool {
	return ctx.Err() != nil || c.client.remaining(r.deadlineNs) == 0
}

// readStored copies a reply out of its store, and gives that back. The function has run, whatever goes wrong.
func (c *connection) readStored(ctx context.Context, r *call) *status.Error {
	p := r.stored
	r.stored = nil
	defer c.giveBack(p)
	if p.failure == nil && p.Bytes > uint64(c.client.config.valueBytesMax) {
		p.failure = fmt.Errorf("it has %d bytes, and the caller accepts %d (limit value_bytes_max)", p.Bytes, c.client.config.valueBytesMax)
	}
	if p.failure != nil {
		return storedLost(status.ResourceExhausted, p.failure)
	}
	if c.isOver(ctx, r) {
		return endOfWaiting(ctx, "before the result was copied").With(status.OutcomeExecutedResultLost)
	}
	start, bytes := r.replyStart, int(p.Bytes)
	if cap(r.reply)-start < bytes {
		r.reply = append(make([]byte, 0, start+bytes), r.reply[:start]...)
	}
	reply := r.reply[:start+bytes]
	for from := start; from < len(reply); from += storeChunk {
		if err := p.store.Read(int64(from-start), reply[from:min(from+storeChunk, len(reply))]); err != nil {
			return storedLost(status.ResourceExhausted, err)
		}
		if c.isOver(ctx, r) {
			return endOfWaiting(ctx, "while the result was copied").With(status.OutcomeExecutedResultLost)
		}
	}
	if serial, err := p.store.Serial(); err != nil || serial != p.Serial {
		return storedLost(status.Unavailable, errors.Join(err, errors.New("the server has taken it back")))
	}
	c.countStored(0, p.Bytes)
	r.reply = reply
	return nil
}

func storedLost(code status.Code, err error) *status.Error {
	return status.Errorf(code, "the function ran, but its result cannot be read from the server's store: %w", err).With(status.OutcomeExecutedResultLost)
}
