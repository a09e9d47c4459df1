package backend_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/backend"
	"github.com/nearcall/nearcall/handoff"
)

// An offerAnswer is what Offer says in the end.
type offerAnswer struct {
	took *backend.Socket
	turn *backend.Turn // nil: it was taken
}

func (a offerAnswer) err() error {
	if a.turn == nil {
		return nil
	}
	return a.turn.Err()
}

// offer offers a connection without waiting; what becomes of it comes through the channel.
func offer(t *testing.T, b *backend.Backend, c net.Conn) <-chan offerAnswer {
	t.Helper()
	answers := make(chan offerAnswer, 2)
	if !b.Offer(c, handoff.Meta{Name: "route"}, func(took *backend.Socket, turn *backend.Turn) { answers <- offerAnswer{took, turn} }) {
		t.Fatal("it was not offered")
	}
	return answers
}

func (f *fixture) settled(answers <-chan offerAnswer) offerAnswer {
	f.t.Helper()
	select {
	case answer := <-answers:
		return answer
	case <-time.After(patience):
		f.t.Fatalf("after %v nobody says what became of the offer", patience)
		return offerAnswer{}
	}
}

// What is offered to a process that lets it wait comes back when another is free, to be sent to
// that one.
func TestOfferIsRecalled(t *testing.T) {
	f := newFixture(t)
	f.listen("hanging") // and accepts nothing
	b := f.backend(1, time.Minute, "hanging", "free")
	given, client := pair(t)
	answers := offer(t, b, given)
	accepted := acceptAll(f.listen("free"))
	answer := f.settled(answers)
	if !errors.Is(answer.err(), context.Canceled) || !errors.Is(answer.err(), handoff.ErrRefused) {
		t.Fatalf("it was settled with %v, want that it was recalled", answer.err())
	}
	await(t, "the refusal is counted", func() bool {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		return fmt.Sprint(f.refused) == "[cancelled]"
	})
	f.sendAgain(b, answer, given)
	c := <-accepted
	_, err := c.Write([]byte("x"))
	must(t, err)
	if n, err := client.Read(make([]byte, 1)); n != 1 {
		t.Errorf("the client reads nothing: %v", err)
	}
	if f.said("takes no more connections") != 0 {
		t.Error("the one that let it wait lost its channel")
	}
	select {
	case again := <-answers:
		t.Errorf("it was settled twice, with %v", again.err())
	default:
	}
}

func first(c, _ net.Conn) net.Conn { return c }

// The other may be free before the offer is sent, or while it is: it is recalled all the same.
func TestOfferIsRecalledAtOnce(t *testing.T) {
	const tries = 50
	for range tries {
		f := newFixture(t)
		f.set.SetTimeouts(backend.Timeouts{Health: 1, HandBack: time.Minute})
		f.listen("one")
		f.listen("two") // Neither accepts: whoever gets it has to give it back.
		b := f.backend(2, time.Minute, "one", "two")
		given, _ := pair(t)
		answer := f.settled(offer(t, b, given))
		if !errors.Is(answer.err(), context.Canceled) {
			t.Fatalf("it was settled with %v, want that it was recalled", answer.err())
		}
		answer.turn.GiveUp()
		await(t, "no place is taken", func() bool { return f.pending() == 0 })
		f.set.Close()
	}
}

// Where no other is free it is left where it is, however long that takes.
func TestOfferWaitsForTheOnlyOne(t *testing.T) {
	f := newFixture(t)
	l := f.listen("one")
	b := f.backend(1, time.Minute, "one")
	answers := offer(t, b, first(pair(t)))
	select {
	case answer := <-answers:
		t.Fatalf("it was settled with %v before anybody took it", answer.err())
	case <-time.After(4 * 50 * time.Millisecond): // Several times as long as it may be left where another is free.
	}
	accepted := acceptAll(l)
	if answer := f.settled(answers); answer.turn != nil {
		t.Errorf("got %v", answer.err())
	}
	<-accepted
}

// A process that ends gives back what it was offered.
func TestOfferToOneThatEnds(t *testing.T) {
	f := newFixture(t)
	old := f.listen("one")
	b := f.backend(1, time.Minute, "one")
	given, _ := pair(t)
	answers := offer(t, b, given)
	await(t, "it is offered", func() bool { return f.pending() == 1 })
	must(t, old.Close())
	answer := f.settled(answers)
	if answer.turn == nil {
		t.Fatal("it was taken")
	}
	if b.Offer(given, handoff.Meta{}, func(*backend.Socket, *backend.Turn) { t.Error("it was settled") }) {
		t.Error("it was offered to nobody")
	}
	accepted := acceptAll(f.listen("one"))
	_, err := answer.turn.Send(t.Context(), b, given, handoff.Meta{Name: "route"})
	must(t, err)
	<-accepted
}

// What was offered to a process that lets it wait does not lose its turn: the process that is free
// next gets it, and not what came after it.
func TestRecalledOfferKeepsItsTurn(t *testing.T) {
	f := newFixture(t)
	f.listen("hanging") // and accepts nothing
	b := f.backend(1, time.Minute, "hanging", "free")
	given, _ := pair(t)
	answers := offer(t, b, given)
	var later []<-chan error
	for range 3 {
		later = append(later, send(t, b))
	}
	await(t, "the later ones wait, and the first is overdue", func() bool { return b.Waiting() == len(later)+1 })
	over := make(chan struct{})
	defer close(over)
	f.worker("free", func() time.Duration { <-over; return 0 }) // It takes one.
	f.sendAgain(b, f.settled(answers), given)
	if answered(later) != 0 {
		t.Error("one that came later was taken")
	}
}

// Of several that are called back the one that came first goes first.
func TestTheFirstIsRecalledFirst(t *testing.T) {
	f := newFixture(t)
	f.listen("one")
	f.listen("two") // Neither accepts.
	b := f.backend(2, time.Minute, "one", "two", "free")
	given, _ := pair(t)
	answers := offer(t, b, given)
	offer(t, b, first(pair(t))) // It may be called back to the one that lets the first go.
	await(t, "both are overdue", func() bool { return b.Waiting() == 2 })
	over := make(chan struct{})
	defer close(over)
	f.worker("free", func() time.Duration { <-over; return 0 })
	f.sendAgain(b, f.settled(answers), given)
}

// Under load, of processes of which each is slow now and then, every connection is taken once,
// whoever it was offered to before, and no place is lost.
func TestOffersUnderLoad(t *testing.T) {
	f := newFixture(t)
	f.set.SetTimeouts(backend.Timeouts{Health: time.Millisecond, HandBack: time.Minute})
	serves := func() time.Duration {
		if rand.IntN(3) > 0 {
			return 0
		}
		return rand.N(20 * time.Millisecond)
	}
	one := f.worker("one", serves)
	var accepted atomic.Int64
	for _, name := range []string{"two", "three"} {
		l := f.listen(name)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				accepted.Add(1)
				c.Close()
				time.Sleep(serves()) // It is what a process does that is slow.
			}
		}()
	}
	b := f.backend(3, time.Minute, "one", "two", "three")
	const clients, each = 4, 100
	var called atomic.Int64
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for range each {
				if f.offerOrSend(b) {
					called.Add(1)
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d of %d were called back", called.Load(), clients*each)
	taken := func() int64 { return accepted.Load() + int64(one.count()) }
	await(t, "each is taken, and all places are free", func() bool { return taken() >= clients*each && b.Taken() == 0 })
	if taken() > clients*each || b.Waiting() != 0 || f.pending() != 0 {
		t.Errorf("%d were taken, want %d; %d wait, and %d are pending", taken(), clients*each, b.Waiting(), f.pending())
	}
}

// offerOrSend gives a connection as the front does, and tells whether it was called back.
func (f *fixture) offerOrSend(b *backend.Backend) (calledBack bool) {
	given, _ := pair(f.t)
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	answers, meta := make(chan offerAnswer, 1), handoff.Meta{Name: "route"}
	var err error
	if !b.Offer(given, meta, func(took *backend.Socket, turn *backend.Turn) { answers <- offerAnswer{took, turn} }) {
		_, err = b.Send(ctx, given, meta)
	} else if answer := f.settled(answers); answer.turn != nil {
		calledBack = true
		_, err = answer.turn.Send(ctx, b, given, meta)
	}
	if err != nil {
		f.t.Error(err)
	}
	return calledBack
}

// sendAgain sends what came back to the process that is free.
func (f *fixture) sendAgain(b *backend.Backend, answer offerAnswer, given net.Conn) {
	f.t.Helper()
	if answer.turn == nil {
		f.t.Fatal("it was taken")
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	took, err := answer.turn.Send(ctx, b, given, handoff.Meta{Name: "route"})
	must(f.t, err)
	if took.Address() != f.address("free") {
		f.t.Errorf("%s took it", took.Address())
	}
}
