package gateway

import (
	"testing"
	"time"
)

func TestComplaints(t *testing.T) {
	c, now, said := &complaints{}, time.Now(), 0
	for range 1000 {
		if _, may := c.next(now); may {
			said++
		}
	}
	if said != complaintsMax {
		t.Errorf("%d were logged", said)
	}
	now = now.Add(complaintsWindow)
	if leftOut, may := c.next(now); !may || leftOut != 1000-complaintsMax {
		t.Errorf("later: %d were left out, and it may be said: %v", leftOut, may)
	}
	if leftOut, may := c.next(now); !may || leftOut != 0 {
		t.Errorf("then: %d were left out, and it may be said: %v", leftOut, may)
	}
}
