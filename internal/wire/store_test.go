package wire_test

import (
	"testing"

	"github.com/nearcall/nearcall/internal/wire"
)

func TestStoredExtensions(t *testing.T) {
	good := wire.Stored{Place: 3, Serial: 9, Bytes: 1 << 30}
	for name, row := range map[string]struct {
		extensions  []byte
		payload     string
		found, fine bool
	}{
		"none":           {nil, "x", false, true},
		"good":           {wire.AppendStored(nil, good), "", true, true},
		"with a payload": {wire.AppendStored(nil, good), "x", true, false},
		"another place":  {wire.AppendStored(nil, wire.Stored{Place: 4, Serial: 1}), "", true, false},
		"no serial":      {wire.AppendStored(nil, wire.Stored{Place: 1}), "", true, false},
		"too large":      {wire.AppendStored(nil, wire.Stored{Serial: 1, Bytes: 1<<30 + 1}), "", true, false},
		"short":          {wire.AppendExtension(nil, wire.ExtensionStored, "short"), "", true, false},
	} {
		got, found, valid := wire.FindStored(&wire.Frame{Extensions: row.extensions, Payload: []byte(row.payload)})
		if found != row.found || valid != row.fine || row.found && row.fine && got != good {
			t.Errorf("%s: %+v, %v, %v", name, got, found, valid)
		}
	}
}

func TestStoreReleases(t *testing.T) {
	for _, release := range []wire.StoreRelease{{Place: 0, Serial: 1}, {Place: 3, Serial: 1 << 31, Forget: true}} {
		if got, err := wire.ParseStoreRelease(release.Append(nil)); got != release || err != nil {
			t.Errorf("%+v is read as %+v, %v", release, got, err)
		}
	}
	broken := wire.StoreRelease{Place: 1, Serial: 1}.Append(nil)
	broken[8] = 2
	if _, err := wire.ParseStoreRelease(broken); err == nil {
		t.Error("flag 2 is accepted")
	}
	if _, err := wire.ParseStoreRelease(wire.StoreRelease{Place: 4}.Append(nil)); err == nil {
		t.Error("place 4 is accepted")
	}
}

// Frames about stores need the feature, and a reply may bring one descriptor with it, and an extension.
func TestFramesOfStores(t *testing.T) {
	stored := wire.AppendStored(nil, wire.Stored{Place: 2, Serial: 1, Bytes: 5})
	reply := func(descriptors uint8, extensions []byte) wire.Frame {
		return wire.Frame{Header: wire.Header{Type: wire.Reply, CallID: 1, Descriptors: descriptors}, Extensions: extensions}
	}
	for name, row := range map[string]struct {
		from     wire.Side
		features wire.Feature
		frame    wire.Frame
		fine     bool
	}{
		"a store":              {wire.CallerSide, wire.FeatureStores, wire.Frame{Header: wire.Header{Type: wire.Store, CallID: 1}, Payload: wire.AppendStoreAsk(nil, 1)}, true},
		"a release":            {wire.CallerSide, wire.FeatureStores, wire.Frame{Header: wire.Header{Type: wire.Release}, Payload: wire.StoreRelease{}.Append(nil)}, true},
		"without the feature":  {wire.CallerSide, wire.FeatureSharedMemory, wire.Frame{Header: wire.Header{Type: wire.Store, CallID: 1}, Payload: wire.AppendStoreAsk(nil, 1)}, false},
		"from the server":      {wire.ServerSide, wire.FeatureStores, wire.Frame{Header: wire.Header{Type: wire.Release}, Payload: wire.StoreRelease{}.Append(nil)}, false},
		"a reply":              {wire.ServerSide, wire.FeatureStores, reply(1, stored), true},
		"two descriptors":      {wire.ServerSide, wire.FeatureStores, reply(2, stored), false},
		"a descriptor alone":   {wire.ServerSide, wire.FeatureStores, reply(1, nil), false},
		"nothing was agreed":   {wire.ServerSide, 0, reply(1, stored), false},
		"a request brings one": {wire.CallerSide, wire.FeatureStores, wire.Frame{Header: wire.Header{Type: wire.Request, CallID: 1, FunctionID: 1, Descriptors: 1}, Extensions: stored}, false},
	} {
		parser := wire.Parser{From: row.from, FrameBytesMax: wire.FrameBytesMax, Features: row.features}
		var frame wire.Frame
		if _, err := parser.Next(row.frame.Append(nil), &frame); (err == nil) != row.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHandshakesSayTheLargestValue(t *testing.T) {
	for _, bytes := range []uint64{0, 1 << 20, 1 << 30, 1 << 40} {
		hello := wire.Hello{VersionMin: 1, VersionMax: 1, FrameBytesMax: wire.FrameBytesMax, Offered: wire.FeatureStores, ValueBytesMax: bytes}
		welcome := wire.Welcome{Version: 1, FrameBytesMax: wire.FrameBytesMax, CallsInFlightMax: 1, Accepted: wire.FeatureStores, ValueBytesMax: bytes}
		var gotHello wire.Hello
		var gotWelcome wire.Welcome
		_, helloErr := wire.ParseHello(hello.Append(nil), &gotHello)
		_, welcomeErr := wire.ParseWelcome(welcome.Append(nil), &gotWelcome)
		want := min(bytes, wire.ValueBytesMaxCeiling)
		if helloErr != nil || welcomeErr != nil || gotHello.ValueBytesMax != want || gotWelcome.ValueBytesMax != want {
			t.Errorf("%d is read as %d and %d: %v, %v", bytes, gotHello.ValueBytesMax, gotWelcome.ValueBytesMax, helloErr, welcomeErr)
		}
	}
}
