package shop

import (
	"time"

	"github.com/nearcall/nearcall/status"
)

// An Event is what somebody did on a page.
type Event struct {
	Kind       string            `nearcall:"kind"`
	At         time.Time         `nearcall:"at"`
	Properties map[string]string `nearcall:"properties"`
}

// A Summary is what there is to say of some events.
type Summary struct {
	First time.Time        `nearcall:"first"`
	Last  time.Time        `nearcall:"last"`
	Kinds map[string]int64 `nearcall:"kinds"`
	Pages map[string]int64 `nearcall:"pages"`
}

// Summarise counts events by what they are and by page.
func Summarise(events []Event) (Summary, error) {
	if len(events) == 0 {
		return Summary{}, status.Errorf(status.InvalidArgument, "there are no events")
	}
	s := Summary{First: events[0].At, Last: events[0].At, Kinds: map[string]int64{}, Pages: map[string]int64{}}
	for _, event := range events {
		if event.At.Before(s.First) {
			s.First = event.At
		}
		if event.At.After(s.Last) {
			s.Last = event.At
		}
		s.Kinds[event.Kind]++
		s.Pages[event.Properties["page"]]++
	}
	return s, nil
}
