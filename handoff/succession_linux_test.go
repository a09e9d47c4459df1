package handoff_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// Each process has the listener of the one before, which learns of it when the next one is
// ready, and not before.
func TestSuccession(t *testing.T) {
	address := newAddress(t)
	opened := 0
	succeed := func() *handoff.Succession {
		s, err := handoff.Succeed(t.Context(), address, func() ([]handoff.Item, error) {
			opened++
			l, err := net.Listen("tcp", "127.0.0.1:0")
			return []handoff.Item{{Name: "web", Listener: l}}, err
		})
		must(t, err)
		t.Cleanup(func() { s.Items[0].Listener.Close() })
		return s
	}
	before := succeed()
	must(t, before.Ready(t.Context()))
	where := before.Items[0].Listener.Addr().String()
	for range 3 {
		failed := succeed() // It ends before it is ready, and does no harm.
		must(t, failed.Items[0].Listener.Close())
		next := succeed()
		select {
		case <-before.Replaced():
			t.Fatal("it is replaced by one that is not ready")
		default:
		}
		must(t, next.Ready(t.Context()))
		select {
		case <-before.Replaced():
		case <-time.After(patience):
			t.Fatal("it is not told that it was replaced")
		}
		if item := next.Items[0]; item.Name != "web" || item.Listener.Addr().String() != where {
			t.Errorf("the next has %s at %s, want web at %s", item.Name, item.Listener.Addr(), where)
		}
		before = next
	}
	if opened != 1 {
		t.Errorf("%d listeners were opened, want one", opened)
	}
}

// What cannot be opened is told.
func TestSuccessionWithoutListener(t *testing.T) {
	refused := errors.New("no")
	_, err := handoff.Succeed(t.Context(), newAddress(t), func() ([]handoff.Item, error) { return nil, refused })
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}
