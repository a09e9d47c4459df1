package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	engine "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/client"
	gateway "github.com/nearcall/nearcall/gateway/nats"
)

// hostileFor is how long a hostile program sends what it likes.
const hostileFor = 2 * time.Second

// A hostile program publishes to all subjects of gateways. Calls between honest gateways go on, and
// the memory of the process does not grow without bounds.
func TestHostilePeer(t *testing.T) {
	broker := startEngine(t, engine.Options{})
	b := startBackend(t, "b", "")
	startGateway(t, gateway.Config{Name: "b", Host: "b", Engine: urls(broker), Exports: []gateway.Export{{Name: "demo", Address: b.address}}})
	a := startGateway(t, gateway.Config{Name: "a", Host: "a", Engine: urls(broker), Listen: here})
	awaitFunction(t, a, "who", 1)
	c := callAt(t, a.listen)
	hostile, err := nats.Connect(broker.ClientURL())
	must(t, err)
	t.Cleanup(hostile.Close)
	honest := memberText(t, broker)

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	subjects := []string{"nearcall.member", "nearcall.member", "nearcall.who", "nearcall.bye", "nearcall.cancel.x", "nearcall.f.demo.who",
		"nearcall.b." + a.Status().Members[0].Instance + ".x", "nearcall.nobody." + a.Status().Instance + ".x"}
	ctx, cancel := context.WithTimeout(context.Background(), hostileFor)
	defer cancel()
	calls := make(chan int, 1)
	go func() {
		made := 0
		for ctx.Err() == nil {
			if _, err := client.Call[string](context.Background(), c.With(client.Attempts(1), client.Timeout(patience)), "who"); err != nil {
				t.Errorf("after %d calls: %v", made, err)
				break
			}
			made++
		}
		calls <- made
	}()
	sent := 0
	for ; ctx.Err() == nil; sent++ {
		message := nats.NewMsg(subjects[random.IntN(len(subjects))])
		message.Data = mutated(random, honest)
		if random.IntN(4) == 0 {
			message.Reply = subjects[random.IntN(len(subjects))]
		}
		must(t, hostile.PublishMsg(message))
		if sent%64 == 0 {
			must(t, hostile.Flush())
		}
	}
	made := <-calls
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("%d messages, %d calls, %d members believed, %d MiB", sent, made, len(a.Status().Members), memory.HeapAlloc>>20)
	if made == 0 {
		t.Error("no call was made")
	}
	if memory.HeapAlloc > 512<<20 {
		t.Errorf("%d bytes are held", memory.HeapAlloc)
	}
}

// memberText returns an announcement of a gateway that exports something.
func memberText(t *testing.T, broker *engine.Server) []byte {
	t.Helper()
	listening, err := nats.Connect(broker.ClientURL())
	must(t, err)
	defer listening.Close()
	heard, err := listening.SubscribeSync("nearcall.member")
	must(t, err)
	must(t, listening.Publish("nearcall.who", nil))
	for {
		message, err := heard.NextMsg(patience)
		must(t, err)
		if bytes.Contains(message.Data, []byte(`"name":"demo"`)) {
			return message.Data
		}
	}
}

// mutated returns nonsense, or an announcement of a gateway that is not there, with mistakes or
// without. It does not pretend to serve what an honest gateway serves: a program that may announce that
// may get calls, which is for the permissions of the engine.
func mutated(random *rand.Rand, honest []byte) []byte {
	if random.IntN(3) == 0 {
		nonsense := make([]byte, random.IntN(2000))
		for i := range nonsense {
			nonsense[i] = byte(random.Uint32())
		}
		return nonsense
	}
	var document map[string]any
	if err := json.Unmarshal(honest, &document); err != nil {
		panic(err)
	}
	instance := make([]byte, 26)
	for i := range instance {
		instance[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[random.IntN(32)]
	}
	document["instance"] = string(instance)
	server := document["servers"].([]any)[0].(map[string]any)
	server["instance"] = fmt.Sprintf("%016x", random.Uint64())
	server["schema"] = fmt.Sprintf("%016x%016x%016x%016x", random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64())
	text, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	for range random.IntN(3) {
		text[random.IntN(len(text))] = byte(random.Uint32())
	}
	return text
}
