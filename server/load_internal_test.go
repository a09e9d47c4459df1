package server

import (
	"runtime"
	"testing"
)

// The load is that of all users, for each processor, and is measured again only after a while.
func TestLoad(t *testing.T) {
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if load := s.load(); load != 0 {
		t.Errorf("a server without users has a load of %d", load)
	}
	for id, calls := range map[uint32]int64{1: 3, 2: 5} {
		u, err := s.users.join(&Peer{Local: true, UserID: id})
		if err != nil {
			t.Fatal(err)
		}
		u.calls.Add(calls)
	}
	if load := s.load(); load != 0 {
		t.Errorf("it was measured again at once: %d", load)
	}
	s.gauge.dueNs.Store(0)
	if load, want := s.load(), uint32(8000/runtime.GOMAXPROCS(0)); load != want {
		t.Errorf("a load of %d, want %d", load, want)
	}
}
