package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/peercred"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// storeChunk is how much is copied before a call looks whether it is still wanted.
const storeChunk = 4 << 20

// takeOverLook is how often a reply looks for a store on a connection that nobody reads.
const takeOverLook = time.Millisecond

// errStoreKept ends the connection of a caller that does not give a store back.
var errStoreKept = errors.New("a store was not given back within write_timeout_ms")

// stores are those of a connection. spec/transports.md has the rules.
type stores struct {
	requests, replies storePlaces
	serials           atomic.Uint32
	// inPlace is set if the caller is of the server's own user: what such a caller changes while
	// it is read, it might as well have done in other ways.
	inPlace bool
	// unread is closed when nobody reads any more, so that no RELEASE will come.
	unread chan struct{}
}

// agreeStores prepares for stores. The caller accepts payloads of up to so many bytes in them.
func (c *connection) agreeStores(valueBytesMax int) {
	s := &stores{unread: make(chan struct{})}
	s.inPlace = c.peer.Local && c.peer.UserID == uint32(os.Geteuid()) && c.peer.UserID != peercred.OverflowUserID
	s.requests.init(&c.user.input, 0, &s.serials)
	s.requests.copies = !s.inPlace
	// The caller writes requests, so the memory is its own, and the server only closes the store.
	s.requests.end = c.endOf((*sharedmemory.Store).Close, &c.user.input)
	s.replies.init(&c.user.output, wire.StoresPerDirection, &s.serials)
	s.replies.readFor = c.server.config.writeTimeout
	s.replies.end = c.endOf((*sharedmemory.Store).Destroy, &c.user.output)
	c.stores, c.agreed.valueBytesMax = s, valueBytesMax
	c.origin.reserved = wire.StoredExtensionBytes
}

func (s *stores) endOfReading() {
	if s == nil {
		return
	}
	select {
	case <-s.unread: // by a reader that reads on
	default:
		close(s.unread)
	}
}

// returnStores gives all stores back. Preconditions: nothing of the connection runs.
func (c *connection) returnStores() {
	if c.stores != nil {
		c.stores.requests.close()
		c.stores.replies.close()
	}
}

// endOf returns what gives up a store. Until that is done the store is counted for its user,
// whether or not that has other connections.
func (c *connection) endOf(giveUp func(*sharedmemory.Store) error, share *share) func(*sharedmemory.Store, int64, time.Duration) {
	users, u := &c.server.users, c.user
	return func(store *sharedmemory.Store, counted int64, after time.Duration) {
		users.outlive(u, 1)
		time.AfterFunc(after, func() {
			// It can fail only for what the system has taken back already.
			_ = giveUp(store)
			share.giveBack(counted)
			users.outlive(u, -1)
		})
	}
}

// onStore answers a caller that asks for a store for a request. That may have to wait for room.
func (r *reader) onStore() (bool, error) {
	c := r.connection
	if !r.take() {
		return true, nil
	}
	id, bytes := r.frame.CallID, wire.ParseStoreAsk(r.frame.Payload)
	if most := c.server.config.valueBytesMax; bytes > uint64(most) || bytes == 0 {
		c.sendFailure(id, refusedf(status.ResourceExhausted, "a request of %d bytes (1 to %d, limit value_bytes_max); the server's option WithValueBytesMax raises it to at most %d", bytes, most, wire.ValueBytesMaxCeiling))
		return true, nil
	}
	r.nowNs = c.server.clock.Ns()
	limit := c.server.config.writeTimeout
	if expiryNs, passed := r.expiry(); passed {
		c.sendFailure(id, refusedf(status.DeadlineExceeded, "the deadline passed before the server read the request for a store"))
		return true, nil
	} else if expiryNs > 0 {
		limit = min(limit, time.Duration(expiryNs-r.nowNs))
	}
	select {
	case <-c.stores.requests.vacant:
	default:
		c.sendFailure(id, crowdedf("stores_per_direction", "all %d stores for requests of this connection are in use (limit stores_per_direction, which is fixed)", wire.StoresPerDirection))
		return true, nil
	}
	if !c.calls.beginBeside() {
		c.stores.requests.vacant <- struct{}{}
		return true, nil
	}
	go c.giveStore(id, int64(bytes), limit/heldPart)
	return true, nil
}

// giveStore gives a caller a store to write a request into.
func (c *connection) giveStore(id uint64, bytes int64, limit time.Duration) {
	defer c.calls.running.Done()
	defer c.output.flush()
	p, share := &c.stores.requests, &c.user.input
	l, err := p.take(bytes, storeCalled, func(bytes int64) bool { return share.waitFor(bytes, 0, limit, c.output.gone()) })
	if err != nil {
		c.sendFailure(id, noStore(share, err))
		return
	}
	p.give(&l, c.server.config.frameTimeout, func() { p.release(l.place, l.serial, storeGiven, false) })
	header := wire.Header{Type: wire.Reply, CallID: id}
	extension := wire.AppendStored(nil, wire.Stored{Place: l.place, Serial: l.serial, Bytes: uint64(bytes)})
	header.ExtensionBytes = uint32(len(extension))
	if !l.fresh {
		c.output.append(&header, extension, nil)
		return
	}
	header.Descriptors = wire.StoreDescriptors
	frame := (&wire.Frame{Header: header, Extensions: extension}).Append(nil)
	refused := l.store.Send(func(descriptor int) error { return c.output.sendDescriptors(frame, []int{descriptor}, nil, nil) })
	if refused != nil {
		p.release(l.place, l.serial, storeGiven, false)
		c.sendFailure(id, noStore(share, refused))
	}
}

// noStore returns the error for a request for which there is no store.
func noStore(share *share, err error) *status.Error {
	var room errNoStoreRoom
	if errors.As(err, &room) {
		return share.refusal(room.bytes)
	}
	return refusedf(status.ResourceExhausted, "the server cannot make a store for the request: %w", err)
}

// onRelease takes back a store that the caller needs no longer. One that it does not have may have
// been taken back already.
func (r *reader) onRelease() (bool, error) {
	release, err := wire.ParseStoreRelease(r.frame.Payload)
	if err != nil {
		return true, err
	}
	s := r.connection.stores
	p := &s.requests
	if release.Place >= wire.StoresPerDirection {
		p = &s.replies
	}
	p.release(release.Place, release.Serial, storeGiven, !release.Forget)
	return true, nil
}

// A storedPayload is the payload of a request that lies in a store.
type storedPayload struct {
	places *storePlaces
	lease  lease
	bytes  int64
}

// claimStored takes the store over in which the request says that its payload lies.
func (r *reader) claimStored() *status.Error {
	s := r.connection.stores
	if s == nil {
		return nil
	}
	said, found, valid := wire.FindStored(&r.frame)
	if !found {
		return nil
	}
	if !valid || said.Place >= wire.StoresPerDirection {
		return refusedf(status.InvalidArgument, "the request says in extension 0x%04x that its payload lies in place %d, %d bytes, and has %d bytes itself", uint16(wire.ExtensionStored), said.Place, said.Bytes, len(r.frame.Payload))
	}
	l, ok := s.requests.claim(said.Place, said.Serial)
	if !ok && said.Serial <= s.serials.Load() {
		return refusedf(status.Unavailable, "the store of the request is not its caller's any more: it is taken back after frame_timeout_ms; ask for another one")
	}
	if !ok {
		return refusedf(status.InvalidArgument, "the request names a use of a store that there never was")
	}
	r.stored = &storedPayload{places: &s.requests, lease: l, bytes: int64(said.Bytes)}
	if most := min(l.store.Bytes(), int64(r.connection.server.config.valueBytesMax)); r.stored.bytes > most {
		return refusedf(status.InvalidArgument, "the request says that it has %d bytes in a store, which may have %d", r.stored.bytes, most)
	}
	return nil
}

// size returns how many bytes the payload has.
func (p *storedPayload) size() int {
	if p == nil {
		return 0
	}
	return int(p.bytes)
}

// release gives the store back. Nobody uses the payload any more.
func (p *storedPayload) release() {
	if p != nil {
		p.places.release(p.lease.place, p.lease.serial, storeCalled, true)
	}
}

// fetchStored makes the payload that lies in a store that of the call: where it is, or as a copy
// if the caller could change it to the harm of others. The copy has been counted with the store.
func (e *execution) fetchStored() error {
	p, c := e.stored, e.connection
	if p == nil {
		return nil
	}
	var err error
	// What is passed on is written to other connections, under their locks: no place for memory
	// that the caller may take away.
	if c.stores.inPlace && e.function.forward == nil {
		if e.payload, err = p.lease.store.View(p.bytes); err != nil {
			return refusedf(status.ResourceExhausted, "the request cannot be read from its store: %w", err)
		}
		return nil
	}
	// The caller may have written more than it has asked for.
	if more := p.bytes - p.lease.copied; more > 0 {
		if !c.user.input.take(more) {
			return c.user.input.refusal(more)
		}
		e.counted += more
	}
	e.payload, e.owned = make([]byte, p.bytes), true
	for from := int64(0); from < p.bytes; from += storeChunk {
		if err := e.context.Err(); err != nil {
			return e.connection.notStarted(err)
		}
		if err := p.lease.store.Read(from, e.payload[from:min(from+storeChunk, p.bytes)]); err != nil {
			return refusedf(status.ResourceExhausted, "the request cannot be read from its store: %w", err)
		}
	}
	return nil
}

// needsStore reports whether the result of a call may have to travel in a store, and can.
func (c *connection) needsStore(e *execution) bool {
	if c.stores == nil || e.err != nil || len(e.files.Going()) > 0 {
		return false
	}
	bytes := e.resultBytes()
	return bytes > c.agreed.frameBytesMax-wire.ExtensionBytesMax && bytes <= c.agreed.valueBytesMax
}

// answerStored sends a REPLY whose payload lies in a store, and returns the failure that it told
// instead.
func (c *connection) answerStored(e *execution, extensions []byte, bytes int, admitted func()) *status.Error {
	until := time.Now().Add(c.server.config.writeTimeout)
	l, err := c.storeResult(e, bytes, until)
	if err == nil {
		err = c.sendStored(e, &l, extensions, bytes, until, admitted)
	}
	if err == nil {
		return nil
	}
	lost := status.Errorf(status.ResourceExhausted, "the result of %s is dropped: %w", e.function.name, err).With(status.OutcomeExecutedResultLost)
	var room errNoStoreRoom
	if errors.As(err, &room) {
		lost = c.user.output.lost(e.function.name, room.bytes)
	}
	c.fail(e.id, lost, nil, admitted)
	return lost
}

// storeResult copies the result of a call into a store.
func (c *connection) storeResult(e *execution, bytes int, until time.Time) (l lease, err error) {
	p := &c.stores.replies
	if err := c.awaitPlace(int64(bytes), until); err != nil {
		return l, err
	}
	l, err = p.take(int64(bytes), storeCalled, func(size int64) bool {
		return c.user.output.waitFor(size, int64(bytes), time.Until(until), c.output.gone())
	})
	if err != nil {
		return l, err
	}
	e.parts = e.beside.AppendParts(e.parts[:0], e.result)
	at := int64(0)
	for _, part := range e.parts {
		for len(part) > 0 && err == nil {
			chunk := part[:min(len(part), storeChunk)]
			if err = l.store.Write(at, chunk); c.gate.Load() {
				err = context.Canceled
			}
			at, part = at+int64(len(chunk)), part[len(chunk):]
		}
	}
	if err == nil {
		err = l.store.SetSerial(l.serial)
	}
	if err != nil {
		p.release(l.place, l.serial, storeCalled, false)
	}
	return l, err
}

// awaitPlace takes the token of a place for a result of so many bytes. If it has to wait, it counts
// the result among those that wait for room.
func (c *connection) awaitPlace(bytes int64, until time.Time) error {
	p, share := &c.stores.replies, &c.user.output
	select {
	case <-p.vacant:
		return nil
	default:
	}
	if !share.beginLate(bytes) {
		return errNoStoreRoom{bytes}
	}
	defer share.endLate(bytes)
	return p.await(time.Until(until), c.output.gone(), c.stores.unread)
}

// await waits for a free place, and takes its token.
func (p *storePlaces) await(limit time.Duration, gone, unread <-chan struct{}) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.vacant:
		return nil
	case <-unread:
		if p.takeOver() {
			return nil
		}
		// Another call has it, which does not take long.
		return p.awaitCalled(timer.C, gone)
	case <-gone:
		return context.Canceled
	case <-timer.C:
		return errStoresWithCaller
	}
}

// errStoresWithCaller says why there is no store for a reply.
var errStoresWithCaller = fmt.Errorf("all %d stores for replies of this connection are still with the caller (limit stores_per_direction, which is fixed)", wire.StoresPerDirection)

// awaitCalled is await for a connection that nobody reads, as long as other calls write their replies.
func (p *storePlaces) awaitCalled(over <-chan time.Time, gone <-chan struct{}) error {
	look := time.NewTicker(takeOverLook)
	defer look.Stop()
	for {
		select {
		case <-p.vacant:
			return nil
		case <-gone:
			return context.Canceled
		case <-over:
			return errStoresWithCaller
		case <-look.C:
			if p.takeOver() {
				return nil
			}
		}
	}
}

// sendStored sends the frame that says where the result lies.
func (c *connection) sendStored(e *execution, l *lease, extensions []byte, bytes int, until time.Time, admitted func()) error {
	p := &c.stores.replies
	p.give(l, c.server.config.writeTimeout, func() { c.storeKept(l.place, l.serial) })
	header := wire.Header{Type: wire.Reply, Codec: e.codec, CallID: e.id, FunctionID: e.function.id}
	extensions = wire.AppendStored(extensions[:len(extensions):len(extensions)], wire.Stored{Place: l.place, Serial: l.serial, Bytes: uint64(bytes)})
	header.ExtensionBytes = uint32(len(extensions))
	if !l.fresh {
		c.output.append(&header, extensions, admitted)
		return nil
	}
	header.Descriptors = wire.StoreDescriptors
	frame := (&wire.Frame{Header: header, Extensions: extensions}).Append(nil)
	refused := l.store.SendToRead(func(descriptor int) error {
		return c.sendPatiently(e, frame, []int{descriptor}, until, admitted)
	})
	if refused != nil {
		p.release(l.place, l.serial, storeGiven, false)
	}
	return refused
}

// storeKept is called when a caller has not given back the store of a reply in time. If nobody reads
// any more, that says nothing about the caller. The connection may still have other calls to answer.
func (c *connection) storeKept(place, serial uint32) {
	select {
	case <-c.stores.unread:
		c.stores.replies.release(place, serial, storeGiven, false)
	default:
		c.close(errStoreKept)
	}
}

// checkValueBytes refuses budgets in which a request of the largest size does not fit.
func (c *config) checkValueBytes() {
	if c.valueBytesMax <= c.frameBytesMax {
		return
	}
	least := sharedmemory.StoreBytes(int64(c.valueBytesMax))
	for _, budget := range []struct {
		of    string
		bytes int64
	}{{"WithInputBytes, all", c.inputBytesMax}, {"WithInputBytes, perUser", c.inputBytesPerUserMax},
		{"WithOutputBytes, all", c.outputBytesMax}, {"WithOutputBytes, perUser", c.outputBytesPerUserMax}} {
		if budget.bytes < least {
			c.failures = append(c.failures, fmt.Errorf("nearcall: %s: %d is out of range: a store for a payload of WithValueBytesMax, %d bytes, takes %d; raise it to that, or make values smaller",
				budget.of, budget.bytes, c.valueBytesMax, least))
		}
	}
}
