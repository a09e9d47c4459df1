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
}

// A storePlace holds a store, or none, and says what it is used for. serial changes with each
// use, so that whoever has an old one can do nothing with it.
type storePlace struct {
	use     storeUse
	serial  uint32
	store   *sharedmemory.Store
	counted int64
	expiry  *time.Timer
}

// storePlaces are the stores of one direction of a connection. Each is counted in the user's
// share as a whole, from before it is made until its memory has been given back. Any goroutine
// may use it.
type storePlaces struct {
	share   *share
	first   uint32
	serials *atomic.Uint32
	// abandon takes over a store that the caller has and may still read, and what is counted for it.
	// It is nil for stores of requests. The caller writes these, so the memory is its own, and the
	// server only closes them.
	abandon func(store *sharedmemory.Store, counted int64)
	// vacant has a token for each place that is free. Whoever takes one calls take.
	vacant chan struct{}

	mu     sync.Mutex
	closed bool
	places [wire.StoresPerDirection]storePlace
}

func (p *storePlaces) init(share *share, first uint32, serials *atomic.Uint32, abandon func(*sharedmemory.Store, int64)) {
	p.share, p.first, p.serials, p.abandon = share, first, serials, abandon
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
// that must be made, and reports whether there is room; it may wait. Preconditions: the caller
// has taken a token, which take gives back if it fails.
func (p *storePlaces) take(payload int64, use storeUse, counts func(bytes int64) bool) (lease, error) {
	place, serial, store := p.choose(payload, use)
	made := lease{place: p.first + uint32(place), serial: serial, store: store}
	if store != nil {
		return made, nil
	}
	bytes := sharedmemory.StoreBytes(payload)
	if !counts(bytes) {
		p.free(place)
		return lease{}, errNoStoreRoom{bytes}
	}
	store, err := sharedmemory.CreateStore(payload, p.abandon != nil)
	if err != nil {
		p.share.giveBack(bytes)
		p.free(place)
		return lease{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &p.places[place]
	at.store, at.counted = store, bytes
	made.store, made.fresh = store, true
	return made, nil
}

// choose takes the free place whose store fits best. A store that is too small goes.
func (p *storePlaces) choose(payload int64, use storeUse) (place int, serial uint32, store *sharedmemory.Store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	place = -1
	for i := range p.places {
		if p.places[i].use == storeFree && (place < 0 || p.places[i].betterThan(&p.places[place], payload)) {
			place = i
		}
	}
	at := &p.places[place]
	at.stopExpiry()
	if at.store != nil && at.store.Bytes() < payload {
		p.dropLocked(at)
	}
	at.use, at.serial = use, p.serials.Add(1)
	return place, at.serial, at.store
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

// free gives back a place that has no store.
func (p *storePlaces) free(place int) {
	p.mu.Lock()
	p.places[place].use = storeFree
	p.mu.Unlock()
	p.vacant <- struct{}{}
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
	return lease{place: place, serial: serial, store: at.store}, true
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
	if keep && !p.closed && p.share.keepSpare(at.counted) {
		at.expiry = time.AfterFunc(storeIdle, func() { p.expire(place, serial) })
	} else {
		p.dropLocked(at)
	}
	p.vacant <- struct{}{}
}

// expire drops a store that nobody has used for a while.
func (p *storePlaces) expire(place, serial uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.findLocked(place, serial); at != nil && at.use == storeFree {
		p.dropLocked(at)
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

// dropLocked gives a store up. Giving memory back takes as long as allocating it did. Others do not
// wait for that, except for the room.
func (p *storePlaces) dropLocked(at *storePlace) {
	if at.store == nil {
		return
	}
	store, counted := at.store, at.counted
	at.store, at.counted = nil, 0
	if p.abandon != nil {
		go p.share.destroy(store, counted)
		return
	}
	// It can fail only for what is closed already.
	_ = store.Close()
	p.share.giveBack(counted)
}

// destroy gives back the memory of a store, and then what was counted for it. It can fail only
// for what the system has taken back already.
func (s *share) destroy(store *sharedmemory.Store, counted int64) {
	_ = store.Destroy()
	s.giveBack(counted)
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
		if at.use == storeGiven && p.abandon != nil {
			p.abandonLocked(at)
		}
		p.dropLocked(at)
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
			p.abandonLocked(at)
			at.use = storeFree
			return true
		}
	}
	return false
}

func (p *storePlaces) abandonLocked(at *storePlace) {
	if at.store != nil {
		p.abandon(at.store, at.counted)
		at.store, at.counted = nil, 0
	}
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
	return s.held.Load() <= b.perUserMax/sparePart && b.held.Load() <= b.max/sparePart && bytes > 0
}
