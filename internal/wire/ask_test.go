package wire_test

import (
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
