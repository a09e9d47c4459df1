package client_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// A teller is a place that directs its callers elsewhere, as the test says.
type teller struct {
	*place
	said  atomic.Pointer[wire.Direction]
	asked atomic.Int64
}

func newTeller(t *testing.T, address string) *teller {
	t.Helper()
	made := &teller{place: &place{t: t, address: address}}
	made.say("", 0)
	made.elsewhere = func(server.Peer) (string, time.Duration) {
		made.asked.Add(1)
		said := made.said.Load()
		return said.Address, said.Valid
	}
	t.Cleanup(made.end)
	made.start()
	return made
}

func newLocalTeller(t *testing.T) *teller {
	t.Helper()
	return newTeller(t, "unix:"+filepath.Join(shortDirectory(t), "s"))
}

func (p *teller) say(address string, valid time.Duration) {
	p.said.Store(&wire.Direction{Address: address, Valid: valid})
}

// expectWork makes so many calls, which one place executes.
func expectWork(t *testing.T, c *client.Client, calls int, at *place, others ...*place) {
	t.Helper()
	work(t, c, calls)
	want := map[*place]int64{at: int64(calls)}
	for _, other := range others {
		want[other] = 0
	}
	expectShare(t, want)
}

// The description of a function says where it is, so that even the first call goes there.
func TestDirectionIsFollowed(t *testing.T) {
	gateway, there := newLocalTeller(t), newLocalPlace(t)
	gateway.say(there.address, time.Minute)
	c := newClient(t, gateway.address)
	_, err := c.Describe(context.Background(), "hold")
	must(t, err)
	work(t, c, 1)
	expectShare(t, map[*place]int64{gateway.place: 1, there: 0})
	expectWork(t, c, 50, there, gateway.place)
	if count := gateway.asked.Load(); count != 2 {
		t.Errorf("the server was asked %d times", count)
	}
	all := c.Statistics().Endpoints
	if len(all) != 2 || all[0].Told || all[0].Address != gateway.address || !all[1].Told || all[1].Address != there.address || all[1].State != "in use" || all[1].Connections != 1 {
		t.Errorf("statistics: %+v", all)
	}
	if moved := c.Statistics().SharedMemoryTotal; moved != 1 {
		t.Errorf("%d connections were given shared memory", moved)
	}
	// Other functions of the server stay with it.
	must(t, c.Call(context.Background(), "stay", nil))
	expectShare(t, map[*place]int64{gateway.place: 1, there: 0})
	// What was told stays when the server that told it is gone.
	gateway.end()
	expectWork(t, c, 50, there, gateway.place)
}

// If an address has several endpoints, what any of them tells counts.
func TestDirectionOfOneOfSeveral(t *testing.T) {
	gateway, there, far := newLocalTeller(t), newLocalPlace(t), newPlace(t, "tcp:127.0.0.1:0")
	gateway.say(there.address, time.Minute)
	c := newClient(t, gateway.address+" | "+far.address)
	expectWork(t, c, 1, gateway.place, there, far)
	expectWork(t, c, 50, there, gateway.place, far)
	gateway.end()
	expectWork(t, c, 50, there, far)
	there.end()
	expectWork(t, c, 50, far)
}

// The server there is gone and comes back, and stops in order while calls are made.
func TestDirectionFallsBack(t *testing.T) {
	gateway, there := newLocalTeller(t), newLocalPlace(t)
	gateway.say(there.address, time.Minute)
	c := newClient(t, gateway.address)
	expectWork(t, c, 1, gateway.place, there)
	for range 3 {
		expectWork(t, c, 20, there, gateway.place)
		there.end()
		expectWork(t, c, 20, gateway.place, there)
		there.start()
		eventually(t, func() bool { work(t, c, 1); return there.executed.Load() > 0 }, func() string { return "calls do not go there again" })
		there.executed.Store(0)
		gateway.executed.Store(0)
	}
	stop, done := make(chan struct{}), make(chan error)
	var calls atomic.Int64
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := c.Call(context.Background(), "work", nil); err != nil {
				done <- err
				return
			}
			calls.Add(1)
		}
	}()
	for range 5 {
		there.end()
		there.start()
		used := there.executed.Load()
		eventually(t, func() bool { return there.executed.Load() > used }, func() string { return "calls do not go there again" })
	}
	close(stop)
	must(t, <-done)
	if executed := gateway.executed.Load() + there.executed.Load(); executed != calls.Load() {
		t.Errorf("%d calls were executed %d times", calls.Load(), executed)
	}
}

// The server there has no place for a call, on the connection or for the user.
func TestDirectionToAFullServer(t *testing.T) {
	for what, limits := range map[string][2]int{"connection": {1, 100}, "user": {100, 1}} {
		t.Run(what, func(t *testing.T) {
			gateway, there := newLocalTeller(t), newLocalPlace(t)
			there.end()
			there.start(server.WithCallsInFlight(limits[0], limits[1]))
			gateway.say(there.address, time.Minute)
			c := newClient(t, gateway.address)
			_, err := c.Describe(context.Background(), "hold")
			must(t, err)
			done := make(chan error, 2)
			for _, at := range []*place{there, gateway.place} {
				go func() { done <- c.Call(context.Background(), "hold", nil) }()
				eventually(t, func() bool { return at.held.Load() == 1 }, func() string { return "no call is at " + at.address })
			}
			close(there.holds)
			must(t, <-done)
			close(gateway.holds)
			must(t, <-done)
		})
	}
}

// What a caller may not follow changes nothing.
func TestDirectionsThatAreNotFollowed(t *testing.T) {
	gateway, there := newLocalTeller(t), newLocalPlace(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			t.Error("a caller has connected to what it was told")
			conn.Close()
		}
	}()
	for _, address := range []string{
		"tcp:" + listener.Addr().String(), "tls:" + listener.Addr().String(), "embed:/lib/demo.so", "unix:@name", "unix:relative", "unix:",
		there.address + " | " + gateway.address, there.address + "?shm=never", "tls:no port", "quic:a:1", "?", " ", "\xff\xfe",
		strings.Repeat("unix:/", 170),
	} {
		gateway.say(address, time.Minute)
		c := newClient(t, gateway.address)
		expectWork(t, c, 3, gateway.place, there)
		if all := c.Statistics().Endpoints; len(all) != 1 {
			t.Errorf("%q: statistics: %+v", address, all)
		}
		must(t, c.Close())
	}
}

// Directions that never lead anywhere cost calls nothing but time.
func TestDirectionsToNowhere(t *testing.T) {
	gateway := newLocalTeller(t)
	closed := newLocalPlace(t)
	closed.end()
	directory := shortDirectory(t)
	for _, address := range []string{closed.address, "unix:" + directory + "/none", "unix:" + directory} {
		gateway.say(address, time.Minute)
		c := newClient(t, gateway.address)
		expectWork(t, c, 20, gateway.place)
		must(t, c.Close())
	}
}

// Nothing is asked of servers, and nothing followed.
func TestDirectionsAreOff(t *testing.T) {
	near, there, far := newLocalTeller(t), newLocalPlace(t), newTeller(t, "tcp:127.0.0.1:0")
	near.say(there.address, time.Minute)
	far.say("tls:localhost:1", time.Minute)
	dial := func(ctx context.Context, text string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(text, "unix:"))
	}
	for _, option := range []client.Option{client.WithDirect(client.DirectOff), client.WithDialer(dial)} {
		c := newClient(t, near.address, option)
		expectWork(t, c, 20, near.place, there)
		must(t, c.Close())
	}
	// Over TCP, a server of this machine cannot be told from others.
	c := newClient(t, far.address, client.WithDirect(client.DirectAny))
	expectWork(t, c, 20, far.place)
	if asked := near.asked.Load() + far.asked.Load(); asked != 0 {
		t.Errorf("servers were asked %d times", asked)
	}
	if _, err := client.New(near.address, client.WithDirect(client.DirectAny+1)); err == nil || !strings.Contains(err.Error(), "direct 3") {
		t.Errorf("an option out of range: %v", err)
	}
}

// When the time of a direction has passed, the server is asked again, while calls go on.
func TestDirectionsAreRenewed(t *testing.T) {
	gateway, first, second := newLocalTeller(t), newLocalPlace(t), newLocalPlace(t)
	gateway.say(first.address, 150*time.Millisecond)
	c := newClient(t, gateway.address)
	expectWork(t, c, 1, gateway.place, first, second)
	expectWork(t, c, 1, first, gateway.place, second)
	moves := func(to string, valid time.Duration, at *place) {
		t.Helper()
		gateway.say(to, valid)
		for _, p := range []*place{gateway.place, first, second} {
			p.executed.Store(0)
		}
		eventually(t, func() bool { work(t, c, 1); return at.executed.Load() > 10 }, func() string { return "calls do not go to " + at.address })
	}
	moves(second.address, 150*time.Millisecond, second)
	if through := gateway.executed.Load(); through != 0 {
		t.Errorf("%d calls went through the server that directs them", through)
	}
	moves("", 150*time.Millisecond, gateway.place)
	moves(first.address, 150*time.Millisecond, first)
	moves("", 0, gateway.place)
	// Nothing is asked any more.
	gateway.asked.Store(0)
	gateway.executed.Store(0)
	gateway.say(first.address, time.Minute)
	expectWork(t, c, 50, gateway.place, second)
	if asked := gateway.asked.Load(); asked != 0 {
		t.Errorf("the server was asked %d times", asked)
	}
}

// The time of a direction passes while the server that told it is gone: calls then fail as they would
// without the direction, and nothing is asked more often than ten times a second.
func TestDirectionOfAServerThatIsGone(t *testing.T) {
	gateway, there := newLocalTeller(t), newLocalPlace(t)
	gateway.say(there.address, 100*time.Millisecond)
	c := newClient(t, gateway.address, client.WithAttempts(1))
	expectWork(t, c, 1, gateway.place, there)
	gateway.end()
	eventually(t, func() bool {
		err := c.Call(context.Background(), "work", nil)
		if err != nil {
			expectFailure(t, err, status.Unavailable, status.OutcomeNotExecuted)
		}
		return err != nil
	}, func() string { return "the direction is followed for ever" })
	gateway.start()
	eventually(t, func() bool { work(t, c, 1); return there.executed.Swap(0) > 0 && gateway.asked.Load() > 1 }, func() string { return "calls do not go there again" })
}

// A caller follows directions to few places at a time, and takes up others when those are over.
func TestDirectionsToManyPlaces(t *testing.T) {
	const functions = wire.DirectionsMax + 2
	s, err := server.New()
	must(t, err)
	var executed [functions]atomic.Int64
	valid := time.Minute
	for i := range functions {
		p := newLocalPlace(t)
		must(t, s.Register(fmt.Sprintf("work%d", i), func() { executed[i].Add(1) },
			server.Elsewhere(func(server.Peer) (string, time.Duration) { return p.address, valid })))
	}
	address := "unix:" + filepath.Join(shortDirectory(t), "s")
	ctx, stop := context.WithCancel(context.Background())
	listener, err := s.Listen(ctx, address)
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	defer func() { stop(); must(t, <-served) }()
	c := newClient(t, address)
	for i := range functions {
		// The place has no such function, so that calls come back.
		for range 3 {
			must(t, c.Call(context.Background(), fmt.Sprintf("work%d", i), nil))
		}
		if got := executed[i].Load(); got != 3 {
			t.Errorf("function %d was executed %d times", i, got)
		}
	}
	if all := c.Statistics().Endpoints; len(all) != 1+wire.DirectionsMax {
		t.Errorf("%d endpoints", len(all))
	}
}
