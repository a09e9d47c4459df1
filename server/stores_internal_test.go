package server

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
)

// A store for whose memory somebody waits is not kept.
func TestStoresAreNotKeptFromThoseWhoWait(t *testing.T) {
	const payload = 1 << 20
	counted := sharedmemory.StoreBytes(payload)
	of := share{budget: &budget{max: sparePart * counted, perUserMax: sparePart * counted}}
	var serials atomic.Uint32
	var places storePlaces
	places.init(&of, 0, &serials)
	places.end = func(store *sharedmemory.Store, counted int64, _ time.Duration) {
		store.Close()
		of.giveBack(counted)
	}
	<-places.vacant
	made, err := places.take(payload, storeCalled, of.take)
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan bool, 1)
	go func() { granted <- of.waitFor(of.budget.max, 0, storeIdle/2, nil) }()
	for of.budget.queue.waiting.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	places.release(made.place, made.serial, storeCalled, true)
	if !<-granted {
		t.Error("all of the budget is not to be had, although nobody uses it")
	}
}
