package gateway

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

const (
	// announcePause is how often changes are announced at most.
	announcePause = 100 * time.Millisecond
	// announceFirst is when a gateway that has just found others announces itself once more.
	announceFirst = 250 * time.Millisecond
	// membersAtPace is for how many members announce_ms is kept. With more of them each one
	// announces itself less often, so that the messages that all of them get grow no faster than
	// their number.
	membersAtPace = 200
	// A gateway that is asked to announce itself waits for up to answerEach for each member, and
	// at most answerMax, so that not all answer at once.
	answerEach = 5 * time.Millisecond
	answerMax  = time.Second
)

// An announcer tells other gateways what this one serves: when that changes, when somebody asks,
// and now and then.
type announcer struct {
	gateway *Gateway
	// now asks for an announcement at once, and soon for one after a moment.
	now, soon chan struct{}
	// eager asks for several, with growing pauses: others may be reached a little later only,
	// because engines find each other one by one.
	eager atomic.Bool
}

func newAnnouncer(g *Gateway) *announcer {
	return &announcer{gateway: g, now: make(chan struct{}, 1), soon: make(chan struct{}, 1)}
}

// changed is called when there is something else to announce.
func (a *announcer) changed() { signal(a.now) }

// asked is called when another gateway wants to know.
func (a *announcer) asked() { signal(a.soon) }

// signal sends to a channel that has room for one, unless that is there already.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// run announces until ctx ends.
func (a *announcer) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := announceFirst; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-a.now:
		case <-a.soon:
			a.delayAnswer(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		a.announce()
		sleep(ctx, announcePause)
		if a.eager.Swap(false) {
			pause = announceFirst
		}
		timer.Reset(pause - pause/5 + rand.N(2*pause/5))
		pause = min(2*pause, a.interval())
	}
}

// delayAnswer waits for a moment before an answer, unless there is something else to announce
// meanwhile: others should hear of a change at once.
func (a *announcer) delayAnswer(ctx context.Context) {
	timer := time.NewTimer(a.answerDelay())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.now:
	case <-ctx.Done():
	}
}

// interval is how often the gateway announces itself without a reason.
func (a *announcer) interval() time.Duration {
	members := a.gateway.catalogue.count()
	return wire.AnnounceMs * time.Millisecond * time.Duration(max(membersAtPace, members)) / membersAtPace
}

func (a *announcer) answerDelay() time.Duration {
	members := time.Duration(a.gateway.catalogue.count())
	return rand.N(min(answerMax, answerEach*(members+1)))
}

// announce publishes what there is. If the engine does not take it, it is announced when the engine
// is connected to again.
func (a *announcer) announce() {
	g := a.gateway
	text, err := json.Marshal(g.announcement(a.interval()))
	if err == nil {
		err = g.link.Publish(g.subjects.member(), text)
	}
	if err != nil {
		g.log.Debug("not announced", "error", err)
	}
}

// announcement returns what the gateway tells others.
func (g *Gateway) announcement(interval time.Duration) *memberDocument {
	d := &memberDocument{Version: memberVersion, Instance: g.hub.Instance(), Gateway: g.config.Name, Host: g.config.Host, Zone: g.labels().zone,
		UptimeMs: int64(g.clock.Ms() - g.startedMs), IntervalMs: interval.Milliseconds(), State: serverUp, Servers: []serverDocument{}}
	if g.draining.Load() {
		d.State = serverDraining
	}
	for _, e := range g.exported() {
		d.Servers = append(d.Servers, e.announcement())
	}
	return d
}
