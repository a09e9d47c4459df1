package bus_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nearcall/nearcall/gateway/nats/internal/bus"
)

// A hub with an open connection is given whatever a hostile peer may publish. It must hold no more
// than the window, and answer each message with a few at most. This is no fuzz target, because the
// go command would instrument the engine as well, which the tests of this package start.
func TestReceiveOfAnything(t *testing.T) {
	seed := setting(t, "NEARCALL_SEED", uint64(time.Now().UnixNano()))
	t.Logf("seed %d (NEARCALL_SEED repeats it)", seed)
	random := rand.New(rand.NewPCG(seed, 3))
	for range 2000 {
		receiveAnything(t, random)
	}
}

// receiveAnything gives a new connection some messages.
func receiveAnything(t *testing.T, random *rand.Rand) {
	t.Helper()
	k := newTalk(t, random, 0)
	defer func() {
		for _, end := range k.ends {
			end.Close()
		}
	}()
	messages, answers := k.ends[1].Subjects()
	peer, peerAnswers := k.ends[0].Subjects()
	hub := k.medium.hubs[1]
	subjects := []string{messages, messages, messages, answers + "7", answers + "x", hub.Subject(), hub.Subject()[:len(hub.Subject())-1] + "nonsense"}
	replies := []string{"", peerAnswers + "0", peer, "nonsense", answers + "x"}
	for sent := 1; sent <= 20; sent++ {
		hub.Receive(subjects[random.IntN(len(subjects))], replies[random.IntN(len(replies))], anyMessage(random), random.IntN(8) == 0)
		if held, window := k.ends[1].Held(); held > window {
			t.Fatalf("%d bytes are held in a window of %d", held, window)
		}
		if k.medium.count > 2*sent {
			t.Fatalf("%d messages are answered with %d", sent, k.medium.count)
		}
	}
}

// Messages to streams that are not there are answered, and only so many of them in a second.
func TestStrangersAreAnsweredNowAndThen(t *testing.T) {
	k := newTalk(t, rand.New(rand.NewPCG(1, 1)), 0)
	defer func() {
		for _, end := range k.ends {
			end.Close()
		}
	}()
	stranger := k.medium.hubs[1].Subject()
	stranger = stranger[:len(stranger)-1] + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	_, answers := k.ends[0].Subjects()
	data := append([]byte{1, 3}, make([]byte, 23)...)                             // version 1, DATA
	open := append([]byte{1, 1}, append(make([]byte, 22), "\x04none\x01x"...)...) // OPEN
	for second := 1; second <= 2; second++ {
		for range 5000 {
			k.medium.hubs[1].Receive(stranger, answers+"0", data, false)
			k.medium.hubs[1].Receive(stranger, answers+"x", open, false)
		}
		if want := second * 2 * 1000; k.medium.count != want {
			t.Errorf("%d messages are answered, want %d", k.medium.count, want)
		}
		k.medium.nowMs.Add(1000)
	}
}

// So are questions whether a stream is there.
func TestProbesAreAnsweredNowAndThen(t *testing.T) {
	k := newTalk(t, rand.New(rand.NewPCG(1, 1)), 0)
	defer func() {
		for _, end := range k.ends {
			end.Close()
		}
	}()
	messages, _ := k.ends[1].Subjects()
	_, answers := k.ends[0].Subjects()
	probe := append([]byte{1, 7}, make([]byte, 22)...)
	for asked := 1; asked <= 20; asked++ {
		for range 1000 {
			k.medium.hubs[1].Receive(messages, answers+"x", probe, false)
		}
		if k.medium.count != asked {
			t.Fatalf("%d questions are answered %d times", asked*1000, k.medium.count)
		}
		k.medium.nowMs.Add(50)
	}
}

// anyMessage returns bytes that often look like a message.
func anyMessage(random *rand.Rand) []byte {
	data := make([]byte, random.IntN(200))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	if len(data) >= 24 && random.IntN(10) > 0 {
		data[0], data[1], data[2], data[3] = 1, byte(1+random.IntN(8)), 0, 0
		binary.LittleEndian.PutUint64(data[8:], uint64(random.IntN(100)))
		binary.LittleEndian.PutUint64(data[16:], uint64(random.IntN(1<<20)))
	}
	return data
}

// Random messages that look right do no harm to a connection of others, and the hub stays small.
func TestHostilePeer(t *testing.T) {
	n := new(network)
	from, to := n.join(t, bus.Config{}), n.join(t, bus.Config{})
	caller, server := connect(t, from.hub, to.hub)
	attacked, victim := connect(t, n.join(t, bus.Config{}).hub, to.hub)
	_, peerAnswers := attacked.Subjects()
	messages, answers := victim.Subjects()
	random := rand.New(rand.NewPCG(7, 7))
	before := heapBytes()
	for i := range 50_000 {
		subject := messages
		if random.IntN(3) == 0 {
			subject = answers + "x"
		}
		must(t, from.Publish(subject, peerAnswers+"x", anyMessage(random)))
		if i%5000 == 0 {
			echo(t, caller, server)
		}
	}
	echo(t, caller, server)
	if grown := heapBytes() - before; grown > 16<<20 {
		t.Errorf("%d bytes more are in use", grown)
	}
}

// echo sends something there and back.
func echo(t *testing.T, caller, server *bus.Conn) {
	t.Helper()
	for _, way := range [][2]*bus.Conn{{caller, server}, {server, caller}} {
		_, err := way[0].Write([]byte("canary"))
		must(t, err)
		got := make([]byte, 6)
		for at := 0; at < len(got); {
			n, err := way[1].Read(got[at:])
			must(t, err)
			at += n
		}
		if string(got) != "canary" {
			t.Fatalf("%q", got)
		}
	}
}
