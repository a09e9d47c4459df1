package bus_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/gateway/nats/internal/bus"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
)

// A faultyMedium carries messages between two hubs when the test says so, and does harm to some
// of them.
type faultyMedium struct {
	nowMs  atomic.Uint64
	hubs   [2]*bus.Hub
	direct bool // messages are delivered at once
	// A message in so many meets a fault; 0: none does.
	faultsEvery int

	// mu protects what follows, because hubs also publish in goroutines of their own.
	mu     sync.Mutex
	random *rand.Rand
	// waiting are the messages on their way, and held those that will come too late.
	waiting, held []message
	count         int
}

// Publish implements bus.Medium.
func (m *faultyMedium) Publish(subject, reply string, data []byte) error {
	p := message{subject: subject, reply: reply, data: bytes.Clone(data)}
	if m.direct {
		m.receive(p)
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	fault := -1
	if m.faultsEvery > 0 && m.random.IntN(m.faultsEvery) == 0 {
		fault = m.random.IntN(5)
	}
	switch fault {
	case 0: // it is lost
	case 1: // it comes twice
		m.waiting = append(m.waiting, p, message{subject: subject, reply: reply, data: bytes.Clone(data)})
	case 2: // it overtakes the one before it
		m.waiting = slices.Insert(m.waiting, max(0, len(m.waiting)-1), p)
	case 3:
		m.held = append(m.held, p)
	case 4:
		m.waiting = append(m.waiting, message{subject: reply, nobody: true})
	default:
		m.waiting = append(m.waiting, p)
	}
	return nil
}

// MessageBytes implements bus.Medium.
func (m *faultyMedium) MessageBytes() int { return wire.BusMessageBytesMax }

func (m *faultyMedium) receive(p message) {
	for _, hub := range m.hubs {
		hub.Receive(p.subject, p.reply, p.data, p.nobody)
	}
}

// deliver delivers the first message that waits, if there is one.
func (m *faultyMedium) deliver() (delivered bool) {
	m.mu.Lock()
	if len(m.waiting) == 0 {
		m.mu.Unlock()
		return false
	}
	p := m.waiting[0]
	m.waiting = m.waiting[1:]
	m.mu.Unlock()
	m.receive(p)
	return true
}

// heal lets the messages go on that were held up.
func (m *faultyMedium) heal() {
	m.nowMs.Add(wire.BusDelayMsMax + 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting, m.held = append(m.waiting, m.held...), nil
}

// A talk is two ends that write and read at random.
type talk struct {
	t       *testing.T
	random  *rand.Rand // of the test's goroutine
	medium  *faultyMedium
	ends    [2]*bus.Conn
	written [2]int // by each end
	read    [2]int // of what each end has written
}

// newTalk connects two hubs, before there are faults.
func newTalk(t *testing.T, random *rand.Rand, faultsEvery int) *talk {
	m := &faultyMedium{random: rand.New(rand.NewPCG(random.Uint64(), 2)), direct: true, faultsEvery: faultsEvery}
	m.nowMs.Store(1)
	for i := range m.hubs {
		hub, err := bus.New(bus.Config{Now: m.nowMs.Load, WindowBytes: 64 << 10, MessageBytes: 2000}, m)
		must(t, err)
		m.hubs[i] = hub
	}
	listener, err := m.hubs[1].Listen("served")
	must(t, err)
	defer listener.Close()
	dialled, err := m.hubs[0].Dial(context.Background(), m.hubs[1].Instance(), "served")
	must(t, err)
	accepted, err := listener.Accept()
	must(t, err)
	m.direct = false
	return &talk{t: t, random: random, medium: m, ends: [2]*bus.Conn{dialled.(*bus.Conn), accepted.(*bus.Conn)}}
}

// byteAt is the byte that each end writes at a position of its stream.
func byteAt(position int) byte { return byte(position * 7 >> 3) }

func (k *talk) write(from int) {
	data := make([]byte, 1+k.random.IntN(5000))
	for i := range data {
		data[i] = byteAt(k.written[from] + i)
	}
	// It fails once the connection has ended.
	_ = k.ends[from].Offer(func(room transport.Room) bool {
		n, _ := room.WriteNow(data)
		k.written[from] += n
		return true
	})
}

// readOf reads what an end has written, and reports whether there was anything.
func (k *talk) readOf(from int) bool {
	buffer := make([]byte, 1+k.random.IntN(8000))
	n := k.ends[1-from].ReadNow(buffer)
	for i := range n {
		if buffer[i] != byteAt(k.read[from]+i) {
			k.t.Fatalf("byte %d of end %d is wrong", k.read[from]+i, from)
		}
	}
	k.read[from] += n
	return n > 0
}

func (k *talk) failed() bool { return k.ends[0].Failure() != nil && k.ends[1].Failure() != nil }

// step does something.
func (k *talk) step() {
	random := k.random
	k.medium.nowMs.Add(uint64(random.IntN(3)))
	switch end := random.IntN(2); random.IntN(5) {
	case 0:
		k.write(end)
	case 1:
		k.readOf(end)
	default:
		k.medium.deliver()
	}
	if k.medium.faultsEvery > 0 && random.IntN(200) == 0 {
		k.medium.heal()
	}
}

// settle lets everything arrive, and reads it.
func (k *talk) settle() {
	for {
		delivered := k.medium.deliver()
		first, second := k.readOf(0), k.readOf(1)
		if !delivered && !first && !second {
			return
		}
	}
}

// check holds what each end was told to what the other has read.
func (k *talk) check() {
	for from, end := range k.ends {
		if k.read[from] > k.written[from] {
			k.t.Fatalf("end %d has written %d bytes, and %d were read", from, k.written[from], k.read[from])
		}
		if offset, known := end.UndeliveredFrom(); known && uint64(k.read[from]) > offset {
			k.t.Fatalf("%d bytes of end %d were read, which was told that nothing was delivered from %d on: %v", k.read[from], from, offset, end.Failure())
		}
	}
}

// faultyMessages is how many messages are sent unless NEARCALL_BUS_MESSAGES says otherwise.
const faultyMessages = 40_000

// The bytes that are read are a beginning of those that were written, whatever happens to messages,
// and none is read of which the other end was told that it was not delivered.
func TestWhatIsReadIsABeginning(t *testing.T) {
	seed := setting(t, "NEARCALL_SEED", uint64(time.Now().UnixNano()))
	t.Logf("seed %d (NEARCALL_SEED repeats it)", seed)
	wanted := int(setting(t, "NEARCALL_BUS_MESSAGES", faultyMessages))
	random := rand.New(rand.NewPCG(seed, 1))
	told, talks, messages := 0, 0, 0
	for ; messages < wanted; talks++ {
		k := newTalk(t, random, 1+random.IntN(300))
		for range 2000 {
			if k.step(); k.failed() {
				break
			}
		}
		if end := random.IntN(4); end < 2 {
			k.ends[end].Close()
		}
		k.settle()
		k.medium.heal()
		k.settle()
		k.check()
		for _, end := range k.ends {
			if _, known := end.UndeliveredFrom(); known {
				told++
			}
			end.Close()
		}
		messages += k.medium.count
	}
	t.Logf("%d connections, %d messages; %d ends were told what was not delivered", talks, messages, told)
	if told == 0 {
		t.Error("no end was told what was not delivered")
	}
}

// setting returns a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := strconv.ParseUint(text, 10, 64)
	must(t, err)
	return value
}

// Without faults everything arrives, and no connection ends.
func TestWithoutFaultsNothingEnds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		k := newTalk(t, random, 0)
		for range 2000 {
			k.step()
		}
		k.settle()
		k.check()
		if k.ends[0].Failure() != nil || k.ends[1].Failure() != nil || k.read != k.written || k.read[0] == 0 || k.read[1] == 0 {
			t.Fatalf("%v, %v; %d were written, %d read", k.ends[0].Failure(), k.ends[1].Failure(), k.written, k.read)
		}
		k.ends[0].Close()
		k.settle()
		k.ends[1].Close()
	}
}

// An END that is lost is sent again, by either side, and whatever the other side says meanwhile.
func TestALostEndComesAgain(t *testing.T) {
	for from, name := range []string{"Dialled", "Accepted"} {
		t.Run(name, func(t *testing.T) {
			k := newTalk(t, rand.New(rand.NewPCG(1, 3)), 0)
			must(t, k.ends[from].CloseWrite())
			k.medium.lose()
			_, err := k.ends[1-from].Write([]byte("more")) // so the end is not asked about soon
			must(t, err)
			for k.medium.deliver() {
			}
			ended := make(chan error, 1)
			go func() {
				k.ends[1-from].SetReadDeadline(time.Now().Add(patience))
				_, err := k.ends[1-from].Read(make([]byte, 1))
				ended <- err
			}()
			k.medium.nowMs.Add(idleProbeMs)
			for {
				k.medium.deliver()
				select {
				case err := <-ended:
					if !errors.Is(err, io.EOF) {
						t.Errorf("the end of the stream: %v", err)
					}
					for _, end := range k.ends {
						end.Close()
					}
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
}

// idleProbeMs is how long nothing comes before a side asks.
const idleProbeMs = 15_000

// lose loses the messages that are on their way.
func (m *faultyMedium) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = nil
}
