package bus_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/nearcall/nearcall/gateway/nats/internal/bus"
)

// FuzzReceive gives a hub with an open connection whatever a hostile peer may publish. It must
// hold no more than the window, and answer each message with a few at most.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0, 3, 1, 3, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 'x'})
	f.Add([]byte{1, 2, 1, 6})
	f.Fuzz(func(t *testing.T, script []byte) {
		k := newTalk(t, rand.New(rand.NewPCG(1, 1)), 0)
		defer func() {
			for _, end := range k.ends {
				end.Close()
			}
		}()
		messages, answers := k.ends[1].Subjects()
		peer, _ := k.ends[0].Subjects()
		_, peerAnswers := k.ends[0].Subjects()
		hub := k.medium.hubs[1]
		for sent := 1; len(script) > 2; sent++ {
			subject := []string{messages, answers + "7", answers + "x", hub.Subject(), hub.Subject()[:len(hub.Subject())-1] + "nonsense"}[script[0]%5]
			reply := []string{"", peerAnswers + "0", peer, "nonsense", answers + "x"}[script[0]/5%5]
			nobody := script[0] >= 128
			length := min(int(script[1]), len(script)-2)
			hub.Receive(subject, reply, append([]byte(nil), script[2:2+length]...), nobody)
			script = script[2+length:]
			held, window := k.ends[1].Held()
			if held > window {
				t.Fatalf("%d bytes are held in a window of %d", held, window)
			}
			if k.medium.count > 2*sent {
				t.Fatalf("%d messages are answered with %d", sent, k.medium.count)
			}
		}
	})
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
		data := make([]byte, random.IntN(200))
		for j := range data {
			data[j] = byte(random.Uint32())
		}
		if len(data) >= 24 {
			data[0], data[1], data[2], data[3] = 1, byte(1+random.IntN(8)), 0, 0
			binary.LittleEndian.PutUint64(data[8:], uint64(random.IntN(100)))
			binary.LittleEndian.PutUint64(data[16:], uint64(random.IntN(1<<20)))
		}
		subject := messages
		if random.IntN(3) == 0 {
			subject = answers + "x"
		}
		must(t, from.Publish(subject, peerAnswers+"x", data))
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
