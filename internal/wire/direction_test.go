package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

func TestDirections(t *testing.T) {
	for _, want := range []wire.Direction{
		{Address: "unix:/run/shop.sock", Valid: 5 * time.Second},
		{Valid: time.Second},
		{},
		{Address: "unix:/" + strings.Repeat("d", wire.DirectionBytesMax-6), Valid: wire.DirectionMsMax * time.Millisecond},
	} {
		extensions := wire.AppendMetadata(nil, "zone", "west")
		got, found := wire.FindDirection(wire.AppendDirection(extensions, want))
		if !found || got != want {
			t.Errorf("%+v was read as %+v (%v)", want, got, found)
		}
	}
}

func TestDirectionsThatAreNone(t *testing.T) {
	for what, content := range map[string]string{
		"too short": "\x01\x00\x00",
		"too long":  "\x01\x00\x00\x00" + strings.Repeat("d", wire.DirectionBytesMax+1),
		"a NUL":     "\x01\x00\x00\x00unix:/run/a\x00b",
	} {
		if got, found := wire.FindDirection(wire.AppendExtension(nil, wire.ExtensionDirection, content)); found {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if _, found := wire.FindDirection(nil); found {
		t.Error("found without extensions")
	}
	long, found := wire.FindDirection(wire.AppendExtension(nil, wire.ExtensionDirection, "\xff\xff\xff\xffunix:/a"))
	if !found || long.Valid != wire.DirectionMsMax*time.Millisecond {
		t.Errorf("the longest number of milliseconds is read as %v (%v)", long.Valid, found)
	}
}

func TestLoadOfAWelcome(t *testing.T) {
	for _, want := range []wire.Welcome{{Load: 0, HasLoad: true}, {Load: 2500, HasLoad: true}, {}} {
		want.Version, want.FrameBytesMax, want.CallsInFlightMax = wire.Version, wire.FrameBytesFloor, 1
		var got wire.Welcome
		if taken, err := wire.ParseWelcome(want.Append(nil), &got); taken == 0 || err != nil {
			t.Fatal(taken, err)
		}
		if got.Load != want.Load || got.HasLoad != want.HasLoad {
			t.Errorf("a load of %d (%v) is read as %d (%v)", want.Load, want.HasLoad, got.Load, got.HasLoad)
		}
	}
}

func FuzzDirection(f *testing.F) {
	f.Add(wire.AppendDirection(nil, wire.Direction{Address: "unix:/run/a.sock", Valid: time.Second}))
	f.Add(wire.AppendExtension(nil, wire.ExtensionDirection, "abc"))
	f.Fuzz(func(t *testing.T, extensions []byte) {
		if wire.CheckExtensions(extensions) != nil {
			return
		}
		said, found := wire.FindDirection(extensions)
		if !found {
			return
		}
		if len(said.Address) > wire.DirectionBytesMax || said.Valid < 0 || said.Valid > wire.DirectionMsMax*time.Millisecond {
			t.Fatalf("%+v", said)
		}
		if again, found := wire.FindDirection(wire.AppendDirection(nil, said)); !found || again != said {
			t.Fatalf("%+v was written and read as %+v", said, again)
		}
	})
}
