package wire_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// TestPlainHeadersAreLegal: a header that is let through at a glance breaks no rule.
func TestPlainHeadersAreLegal(t *testing.T) {
	const headers = 1_000_000
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	few := func() uint32 { return uint32(max(0, random.IntN(6)-3)) } // mostly 0
	plain := map[wire.FrameType]int{}
	for range headers {
		p := wire.Parser{
			From: wire.Side(random.IntN(4)), FrameBytesMax: 4,
			Features: wire.Feature(random.Uint64()) & (wire.FeatureDescriptions | wire.FeatureDescriptors | wire.FeatureStreams | wire.FeatureSharedMemory),
		}
		h := wire.Header{
			Length: uint32(random.IntN(6)), Type: wire.FrameType(random.IntN(16)), Flags: wire.Flags(few()), Codec: wire.Codec(few()),
			Descriptors: uint8(few()), CallID: uint64(few()), FunctionID: few(), Deadline: few(), Status: few(), ExtensionBytes: few(),
		}
		if !p.IsPlain(&h) {
			continue
		}
		plain[h.Type]++
		if err := p.Check(&h); err != nil {
			t.Fatalf("seed %d: %+v is plain for %+v: %v", seed, h, p, err)
		}
	}
	if len(plain) != 2 || plain[wire.Request] == 0 || plain[wire.Reply] == 0 {
		t.Errorf("seed %d: plain headers by type: %v, want requests and replies", seed, plain)
	}
}

func BenchmarkNext(b *testing.B) {
	p := wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMax}
	sent := wire.Frame{Header: wire.Header{Type: wire.Reply, CallID: 1, FunctionID: 1, Length: 64}, Payload: make([]byte, 64)}
	buffer := sent.Append(nil)
	var frame wire.Frame
	b.ReportAllocs()
	for b.Loop() {
		if n, err := p.Next(buffer, &frame); n == 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}
