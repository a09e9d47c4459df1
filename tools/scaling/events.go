package main

// An event is something that happens at a time of the simulation.
type event struct {
	at   uint64 // ns
	what kind
	call *call
	// client and index are of what has no call: an arrival, a silence, a probe.
	client, index int
}

type kind uint8

const (
	arrives kind = iota // a call at its client
	reaches             // a call its host
	returns             // a call from its function
	replies             // a call's result its client
	refused             // a call comes back, because the host has no room
	silent              // a client gives up a host that says nothing
	probed              // a client knows whether a host is back
)

// events is a heap, the earliest first. It does not go by container/heap, whose interfaces make
// an allocation of each event.
type events []event

func (h *events) push(e event) {
	*h = append(*h, e)
	all := *h
	for i := len(all) - 1; i > 0; {
		above := (i - 1) / 2
		if all[above].at <= all[i].at {
			return
		}
		all[above], all[i] = all[i], all[above]
		i = above
	}
}

func (h *events) pop() event {
	all := *h
	first, last := all[0], len(all)-1
	all[0] = all[last]
	all = all[:last]
	*h = all
	for i := 0; ; {
		least := i
		for below := 2*i + 1; below <= 2*i+2 && below < last; below++ {
			if all[below].at < all[least].at {
				least = below
			}
		}
		if least == i {
			return first
		}
		all[least], all[i] = all[i], all[least]
		i = least
	}
}
