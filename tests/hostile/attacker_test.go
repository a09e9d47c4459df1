package hostile_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory/memorytest"
	"github.com/nearcall/nearcall/internal/wire"
)

const (
	behaveTimeout   = time.Minute
	attackTimeout   = 5 * time.Second // whoever is not answered any more
	callsPerLifeMax = 400
	behavedCalls    = 8
	callsUnanswered = 64
	bodyBytesMin    = 2 * wordBytes // holds a word wherever it begins
	strikesAtOnce   = 16
	pauseMax        = 100 * time.Microsecond
	looksMax        = 20
	searchEvery     = 100
)

// An attacker makes one connection after the other, behaves well for a while, and
// then does harm in its own region while it calls. All it reads it searches for
// what is others'.
type attacker struct {
	name   string
	path   string
	names  *names
	random *rand.Rand

	lives, calls, answers, strikes int
}

// A life is one connection of an attacker.
type life struct {
	*attacker
	own            pattern
	caller         *memorytest.Caller
	callerRegion   []byte
	serverRegion   []byte
	record         []byte
	unanswered     int
	harm           sync.WaitGroup // goroutines beside the one that calls
	ended          atomic.Bool
	fromSocket     atomic.Int64
	concurrentDone int
	mu             sync.Mutex
	err            error
}

// attack goes on until stop is closed. An error is the server's fault.
func (a *attacker) attack(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if err := a.live(); err != nil {
			return fmt.Errorf("%s, connection %d: %w", a.name, a.lives, err)
		}
	}
}

func (a *attacker) live() error {
	a.lives++
	caller, err := memorytest.ConnectWithMemory(a.path, behaveTimeout)
	if err != nil {
		return err
	}
	l := &life{attacker: a, caller: caller, own: a.names.add(fmt.Sprintf("%s, connection %d", a.name, a.lives)), record: make([]byte, wire.HeaderBytes+wire.FrameBytesMax)}
	files := caller.Files()
	raw, err := memorytest.Map(files[0], files[1])
	if err != nil {
		return errors.Join(err, caller.Close())
	}
	l.callerRegion, l.serverRegion = raw.Caller, raw.Server
	if err := l.behave(); err != nil {
		return errors.Join(err, raw.Close(), caller.Close())
	}
	if err := caller.Conn.SetDeadline(time.Now().Add(attackTimeout)); err != nil {
		return errors.Join(err, raw.Close(), caller.Close())
	}
	l.run()
	l.search(l.serverRegion)
	err = errors.Join(l.err, breakIn(files[0], files[1], l.callerRegion, l.serverRegion))
	// Memory goes when nobody uses it any more.
	return errors.Join(err, raw.Close(), caller.Close())
}

// behave makes calls as any caller does.
func (l *life) behave() error {
	for range l.random.IntN(behavedCalls) {
		data := l.own.fill(l.size())
		request := l.caller.Request("echo", data)
		if err := l.caller.Put(&request); err != nil {
			return err
		}
		reply, err := l.caller.TakeFrame()
		if err != nil {
			return err
		}
		if reply.Type != wire.Reply || !bytes.Equal(reply.Payload, data) {
			return fmt.Errorf("%v with %d bytes to a caller that behaved; want %d", reply.Type, len(reply.Payload), len(data))
		}
		l.calls++
		l.answers++
	}
	return nil
}

func (l *life) size() int {
	switch l.random.IntN(8) {
	case 0:
		return bodyBytesMin + l.random.IntN(1<<20)
	case 1, 2:
		return bodyBytesMin + l.random.IntN(64<<10)
	case 3, 4:
		return bodyBytesMin + l.random.IntN(1000)
	}
	return bodyBytesMin + l.random.IntN(56)
}

// run calls and does harm, by turns and at the same time, until the server has
// had enough of it or the life's calls are made.
func (l *life) run() {
	own := l.newDamage()
	stopHarm := make(chan struct{})
	l.harm.Go(l.readSocket)
	if l.random.IntN(4) > 0 {
		beside := l.newDamage()
		l.harm.Go(func() { l.strikeBeside(beside, stopHarm) })
	}
	calls := 1 + l.random.IntN(callsPerLifeMax)
	for i := 0; i < calls && l.unanswered < 2*callsUnanswered && !l.ended.Load(); i++ {
		if l.random.IntN(3) == 0 {
			own.strike()
		}
		l.call()
		l.take()
		if i%searchEvery == searchEvery/2 {
			l.search(l.serverRegion)
		}
	}
	close(stopHarm)
	// In the middle of whatever the server is doing.
	l.caller.Conn.CloseRead()
	l.caller.Conn.CloseWrite()
	l.harm.Wait()
	l.strikes += own.done + l.concurrentDone
	l.answers += int(l.fromSocket.Load())
}

func (l *life) newDamage() *damage {
	return &damage{
		region: l.callerRegion, server: l.serverRegion, file: l.caller.Files()[0], theme: theme(l.random.IntN(int(themes))),
		random: rand.New(rand.NewPCG(l.random.Uint64(), 0)),
	}
}

// strikeBeside does harm while the server reads.
func (l *life) strikeBeside(d *damage, stop <-chan struct{}) {
	for !l.ended.Load() {
		select {
		case <-stop:
			l.concurrentDone = d.done
			return
		default:
		}
		d.strike()
		if d.done%strikesAtOnce == 0 {
			// For those who call to have something to damage.
			time.Sleep(time.Duration(d.random.IntN(int(pauseMax))))
		}
	}
	l.concurrentDone = d.done
}

// call sends a request, without minding whether anything of it is whole.
func (l *life) call() {
	data := l.own.fill(l.size())
	request := l.caller.Request("echo", data)
	l.calls++
	l.unanswered++
	if err := l.caller.Put(&request); err != nil {
		l.ended.Store(true)
	}
	// One that waits for no answer at all would only meet the limits; one whose
	// damage keeps the answers away would wait for ever.
	for looks := 0; l.unanswered > callsUnanswered && looks < looksMax && !l.ended.Load(); looks++ {
		l.take()
		l.caller.End.Look(100)
	}
}

// take takes what is in the ring. What its own damage made of it says nothing.
func (l *life) take() {
	for {
		record, err := l.caller.End.Take(l.record, wire.FrameBytesMaxCeiling, func(n int) []byte { return make([]byte, n) })
		if record == nil || err != nil {
			return
		}
		l.unanswered--
		l.answers++
		l.search(record)
	}
}

// readSocket reads all that comes, to the end.
func (l *life) readSocket() {
	defer l.ended.Store(true)
	buffer := make([]byte, 64<<10)
	kept := 0
	for {
		n, err := l.caller.Conn.Read(buffer[kept:])
		l.search(buffer[:kept+n])
		if err != nil {
			return
		}
		l.fromSocket.Add(1)
		// A word may be cut in two.
		kept = copy(buffer, buffer[max(0, kept+n-wordBytes+1):kept+n])
	}
}

func (l *life) search(data []byte) {
	if who, found := l.own.foreign(data); found {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = errors.Join(l.err, fmt.Errorf("it sees bytes of %q", who))
	}
}
