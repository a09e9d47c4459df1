package server

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
)

// placesFor returns places for stores that are given up at once.
func placesFor(of *share) *storePlaces {
	var places storePlaces
	places.init(of, 0, new(atomic.Uint32))
	places.end = func(store *sharedmemory.Store, counted int64, _ time.Duration) {
		store.Close()
		of.giveBack(counted)
	}
	return &places
}

// A store for whose memory a call of its user waits is not kept. Calls of other users do not matter.
func TestStoresAreNotKeptFromThoseWhoWait(t *testing.T) {
	const payload = 1 << 20
	counted := sharedmemory.StoreBytes(payload)
	for _, other := range []bool{false, true} {
		b := &budget{max: sparePart * counted, perUserMax: sparePart * counted}
		of, waits := &share{budget: b}, &share{budget: b}
		if !other {
			waits = of
		}
		places := placesFor(of)
		<-places.vacant
		made, err := places.take(payload, storeCalled, of.take)
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan bool, 1)
		go func() { granted <- waits.waitFor(b.max, 0, storeIdle/2, nil) }()
		for b.queue.waiting.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		places.release(made.place, made.serial, storeCalled, true)
		if got := <-granted; got == other {
			t.Errorf("another user waits: %v; all of the budget was had: %v", other, got)
		}
		places.close()
	}
}
