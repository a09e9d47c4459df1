package wire_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/nearcall/nearcall/internal/wire"
)

func TestAskIsReadAsItWasWritten(t *testing.T) {
	key := wire.ConnectionKey{1, 2, 3, 15: 16}
	for _, ids := range [][]uint64{{1}, {7, 1 << 63, 9}} {
		gotKey, gotIDs, err := wire.ParseAsk(wire.AppendAsk(nil, key, ids))
		if gotKey != key || !slices.Equal(gotIDs, ids) || err != nil {
			t.Errorf("an ASK about %v was read as %v %v, %v", ids, gotKey, gotIDs, err)
		}
	}
	if _, _, err := wire.ParseAsk(make([]byte, 25)); err == nil {
		t.Error("an ASK whose last call id has one byte was accepted")
	}
}

func TestKeyOfConnectionIsInTheWelcome(t *testing.T) {
	said := wire.Welcome{Version: wire.Version, Accepted: wire.FeatureAsks, Instance: 1, FrameBytesMax: wire.FrameBytesFloor, CallsInFlightMax: 1,
		Key: wire.ConnectionKey{5, 15: 6}}
	var heard wire.Welcome
	if _, err := wire.ParseWelcome(said.Append(nil), &heard); err != nil || heard.Key != said.Key {
		t.Errorf("the key %x was read as %x, %v", said.Key, heard.Key, err)
	}
}

// FuzzAsk reads whatever the parser lets through as an ASK, and whatever it does not.
func FuzzAsk(f *testing.F) {
	f.Add(wire.AppendAsk(nil, wire.ConnectionKey{1}, []uint64{1, 2}), uint64(wire.FeatureAsks))
	f.Add(make([]byte, 25), uint64(0))
	f.Fuzz(func(t *testing.T, payload []byte, features uint64) {
		asked := wire.Frame{Header: wire.Header{Type: wire.Ask, CallID: 1}, Payload: payload}
		p := wire.Parser{From: wire.CallerSide, FrameBytesMax: wire.FrameBytesMax, Features: wire.Feature(features)}
		var frame wire.Frame
		taken, refusal := p.Next(asked.Append(nil), &frame)
		key, ids, err := wire.ParseAsk(payload)
		if refusal != nil || taken == 0 {
			return
		}
		if err == nil && (len(ids) == 0 || len(ids) > wire.AskedCallsMax || !bytes.Equal(wire.AppendAsk(nil, key, ids), payload)) {
			t.Fatalf("% x was read as %x and %d calls", payload, key, len(ids))
		}
	})
}
