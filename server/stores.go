package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
)

// storeIdle is how long a store is kept that nobody uses.
const storeIdle = wire.StoreIdleMs * time.Millisecond

// A storeUse says in whose hands a store is.
type storeUse uint8

const (
	storeFree   storeUse = iota
	storeGiven           // the caller's, which writes a request there or reads a reply
	storeCalled          // a call's, which reads its request there or writes its reply
)

// A lease is one use of a store.
type lease struct {
	place, serial uint32
	store         *sharedmemory.Store
	// fresh is set if the caller does not have the store yet.
	fresh bool
	// copied is counted for a copy of the payload.
	copied int64
}

// A storePlace holds a store, or none, and says what it is used for. serial changes with each
// use, so that whoever has an old one can do nothing with it.
type storePlace struct {
	use     storeUse
	serial  uint32
	store   *sharedmemory.Store
	counted int64
	copied  int64 // counted for a copy of the payload, until this use is over
	expiry  *time.Timer
}

// storePlaces are the stores of one direction of a connection. Each is counted in the user's
// share as a whole, from before it is made until its memory has been given back. Any goroutine
// may use it.
type storePlaces struct {
	share   *share
	first   uint32
	serials *atomic.Uint32
	// end gives up a store after a while, and then what is counted for it. It does not wait.
	end func(store *sharedmemory.Store, counted int64, after time.Duration)
	// readFor is how long the caller may go on reading from a store after the end of its
	// connection. It is 0 for stores of requests, which the caller does not read.
	readFor time.Duration
	// copies is set if the server copies payloads before it looks at them.
	copies bool
	// vacant has a token for each place that is free. Whoever takes one calls take.
	vacant chan struct{}

	mu     sync.Mutex
	closed bool
	places [wire.StoresPerDirection]storePlace
}

func (p *storePlaces) init(share *share, first uint32, serials *atomic.Uint32) {
	p.share, p.first, p.serials = share, first, serials
	p.vacant = make(chan struct{}, wire.StoresPerDirection)
	for range wire.StoresPerDirection {
		p.vacant <- struct{}{}
	}
}

// errNoStoreRoom says that the user has no room for a store.
type errNoStoreRoom struct{ bytes int64 }

// Error implements error.
func (errNoStoreRoom) Error() string { return "there is no room for a store" }

// take takes a store for a payload of so many bytes into use. counts counts the bytes of one
// that must be made, and of a copy of the payload, and reports whether there is room; it may wait.
// Preconditions: the caller has taken a token, which take gives back if it fails.
func (p *storePlaces) take(payload int64, use storeUse, counts func(bytes int64) bool) (lease, error) {
	made := p.choose(payload, use)
	counted, copied := int64(0), int64(0)
	if made.fresh = made.store == nil; made.fresh {
		counted = sharedmemory.StoreBytes(payload)
	}
	if p.copies {
		copied = payload
	}
	if err := p.count(counted+copied, counts); err != nil {
		p.release(made.place, made.serial, use, false)
		return lease{}, err
	}
	if made.fresh {
		var err error
		if made.store, err = sharedmemory.CreateStore(payload, p.readFor > 0); err != nil {
			p.share.giveBack(counted + copied)
			p.release(made.place, made.serial, use, false)
			return lease{}, err
		}
	}
	made.copied = copied
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &p.places[made.place-p.first]
	if at.copied = copied; made.fresh {
		at.store, at.counted = made.store, counted
	}
	return made, nil
}

// count counts bytes. Stores that are only kept make room for them.
func (p *storePlaces) count(bytes int64, counts func(bytes int64) bool) error {
	if bytes == 0 {
		return nil
	}
	if !p.share.hasRoom(bytes) {
		p.dropFree()
	}
	if !counts(bytes) {
		return errNoStoreRoom{bytes}
	}
	return nil
}

// dropFree drops the stores that nobody uses.
func (p *storePlaces) dropFree() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.places {
		if at := &p.places[i]; at.use == storeFree {
			at.stopExpiry()
			p.dropLocked(at, 0)
		}
	}
}

// choose takes the free place whose store fits best. A store that is too small goes.
func (p *storePlaces) choose(payload int64, use storeUse) lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	place := -1
	for i := range p.places {
		if p.places[i].use == storeFree && (place < 0 || p.places[i].betterThan(&p.places[place], payload)) {
			place = i
		}
	}
	at := &p.places[place]
	at.stopExpiry()
	if at.store != nil && at.store.Bytes() < payload {
		p.dropLocked(at, 0)
	}
	at.use, at.serial = use, p.serials.Add(1)
	return lease{place: p.first + uint32(place), serial: at.serial, store: at.store}
}

// betterThan reports whether the place suits a payload better than another one: best is the
// smallest store that holds it, and then a place without a store.
func (at *storePlace) betterThan(other *storePlace, payload int64) bool {
	rank := func(of *storePlace) int64 {
		switch {
		case of.store == nil:
			return wire.ValueBytesMaxCeiling << 1
		case of.store.Bytes() < payload:
			return wire.ValueBytesMaxCeiling << 2
		}
		return of.store.Bytes()
	}
	return rank(at) < rank(other)
}

// give leaves a store to the caller, until release or claim. If neither comes in time, overdue is called.
func (p *storePlaces) give(l *lease, limit time.Duration, overdue func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.findLocked(l.place, l.serial); at != nil && !p.closed {
		at.use = storeGiven
		at.expiry = time.AfterFunc(limit, overdue)
	}
}

// claim takes over for a call what was given to the caller with this serial.
func (p *storePlaces) claim(place, serial uint32) (lease, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.findLocked(place, serial)
	if at == nil || at.use != storeGiven {
		return lease{}, false
	}
	at.stopExpiry()
	at.use = storeCalled
	return lease{place: place, serial: serial, store: at.store, copied: at.copied}, true
}

// release ends a use of a store, if it is one of the kind that is given. The store is kept if keep is set and
// connections may keep as much for later use.
func (p *storePlaces) release(place, serial uint32, use storeUse, keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.findLocked(place, serial)
	if at == nil || at.use != use {
		return
	}
	at.stopExpiry()
	at.use = storeFree
	p.uncopyLocked(at)
	if keep && !p.closed && p.share.keepSpare(at.counted) {
		at.expiry = time.AfterFunc(storeIdle, func() { p.expire(place, serial) })
	} else {
		p.dropLocked(at, 0)
	}
	p.vacant <- struct{}{}
}

// expire drops a store that nobody has used for a while.
func (p *storePlaces) expire(place, serial uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.findLocked(place, serial); at != nil && at.use == storeFree {
		p.dropLocked(at, 0)
	}
}

func (p *storePlaces) findLocked(place, serial uint32) *storePlace {
	if place < p.first || place-p.first >= wire.StoresPerDirection {
		return nil
	}
	at := &p.places[place-p.first]
	if at.serial != serial {
		return nil
	}
	return at
}

// dropLocked gives a store up after a while. Giving memory back takes as long as allocating it
// did. Nobody waits for that, except for the room.
func (p *storePlaces) dropLocked(at *storePlace, after time.Duration) {
	if at.store != nil {
		p.end(at.store, at.counted, after)
		at.store, at.counted = nil, 0
	}
}

func (p *storePlaces) uncopyLocked(at *storePlace) {
	p.share.giveBack(at.copied)
	at.copied = 0
}

// close drops all stores, except those in which the caller may still be reading a reply.
// Preconditions: no call uses one any more.
func (p *storePlaces) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for i := range p.places {
		at := &p.places[i]
		at.stopExpiry()
		p.uncopyLocked(at)
		after := time.Duration(0)
		if at.use == storeGiven {
			after = p.readFor
		}
		p.dropLocked(at, after)
	}
}

// takeOver makes a place free whose store the caller may still be reading, because nobody will
// learn that it does not any more. It reports false if there is no such place.
func (p *storePlaces) takeOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.places {
		if at := &p.places[i]; at.use == storeGiven {
			at.stopExpiry()
			p.dropLocked(at, p.readFor)
			at.use = storeFree
			return true
		}
	}
	return false
}

func (at *storePlace) stopExpiry() {
	if at.expiry != nil {
		at.expiry.Stop()
		at.expiry = nil
	}
}

// keepSpare reports whether bytes that are counted may stay so although they are not needed now.
func (s *share) keepSpare(bytes int64) bool {
	b := s.budget
	return !s.isAwaited() && s.held.Load() <= b.perUserMax/sparePart && b.held.Load() <= b.max/sparePart && bytes > 0
}
