package codec_test

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/internal/codec"
)

type parcel struct {
	Label string   `nearcall:"label"`
	Data  []byte   `nearcall:"data"`
	More  [][]byte `nearcall:"more"`
	Any   any      `nearcall:"any"`
}

func filled(bytes int, with byte) []byte { return slices.Repeat([]byte{with}, bytes) }

// parcels are values with long bytes in all places.
func parcels() []parcel {
	many := make([][]byte, 200)
	for i := range many {
		many[i] = filled(16<<10, byte(i))
	}
	return []parcel{
		{},
		{Label: "short", Data: filled(100, 1)},
		{Label: "one", Data: filled(1<<20, 2)},
		{Label: "two", Data: filled(20<<10, 3), More: [][]byte{filled(10, 4), filled(18<<10, 5), nil}},
		{Label: "in an any", Any: filled(40<<10, 6)},
		{Label: "more than parts", More: many},
	}
}

// What was gathered is, in its order, what would have been appended.
func TestGatheredBytes(t *testing.T) {
	by, err := codec.For[parcel]()
	must(t, err)
	for _, value := range parcels() {
		whole, err := by.Append([]byte("before"), &value)
		must(t, err)
		beside := &codec.Beside{Gathers: true}
		encoded, err := by.AppendWith(beside, []byte("before"), &value)
		must(t, err)
		joined := slices.Concat(beside.AppendParts(nil, encoded)...)
		if !bytes.Equal(joined, whole) || len(encoded)+beside.PieceBytes() != len(whole) {
			t.Errorf("%s: %d bytes with %d beside them are not the %d that there are", value.Label, len(encoded), beside.PieceBytes(), len(whole))
		}
		if len(value.Data) >= 1<<20 && (len(beside.Pieces) != 1 || &beside.Pieces[0].Data[0] != &value.Data[0]) {
			t.Errorf("%s: the bytes were copied", value.Label)
		}
		if len(beside.Pieces) > 128 {
			t.Errorf("%s: %d pieces", value.Label, len(beside.Pieces))
		}
		if beside.Drop(); len(beside.Pieces) != 0 {
			t.Errorf("%s: pieces were not dropped", value.Label)
		}
	}
}

func TestGatheredBytesOfBasicTypes(t *testing.T) {
	data := filled(64<<10, 7)
	by, err := codec.For[[]byte]()
	must(t, err)
	whole, err := by.Append(nil, &data)
	must(t, err)
	typed, dynamic := &codec.Beside{Gathers: true}, &codec.Beside{Gathers: true}
	encoded, err := by.AppendWith(typed, nil, &data)
	must(t, err)
	if got := slices.Concat(typed.AppendParts(nil, encoded)...); !bytes.Equal(got, whole) || len(typed.Pieces) != 1 {
		t.Errorf("%d bytes in %d pieces, want %d in one", len(got), len(typed.Pieces), len(whole))
	}
	encoded, err = codec.AppendValueWith(dynamic, nil, data)
	must(t, err)
	if got := slices.Concat(dynamic.AppendParts(nil, encoded)...); !bytes.Equal(got, whole) || len(dynamic.Pieces) != 1 {
		t.Errorf("%d bytes in %d pieces, want %d in one", len(got), len(dynamic.Pieces), len(whole))
	}
}

// A value that cannot be encoded leaves no pieces behind.
func TestNothingIsGatheredOfAnError(t *testing.T) {
	by, err := codec.For[parcel]()
	must(t, err)
	beside := &codec.Beside{Gathers: true}
	encoded, err := by.AppendWith(beside, []byte("x"), &parcel{Data: filled(20<<10, 1)})
	must(t, err)
	after, err := by.AppendWith(beside, encoded, &parcel{Data: filled(20<<10, 2), Any: make(chan int)})
	if err == nil || len(after) != len(encoded) || len(beside.Pieces) != 1 || beside.Pieces[0].Data[0] != 1 {
		t.Errorf("%v: %d bytes and %d pieces, want %d and 1", err, len(after), len(beside.Pieces), len(encoded))
	}
}

// A value keeps what it is decoded from only if it is most of that.
func TestKeptBytes(t *testing.T) {
	by, err := codec.For[parcel]()
	must(t, err)
	for _, value := range parcels() {
		encoded, err := by.Append(nil, &value)
		must(t, err)
		beside := new(codec.Beside)
		beside.Keep(len(encoded))
		var got parcel
		if _, err := by.DecodeWith(beside, encoded, &got); err != nil {
			t.Fatal(err)
		}
		mostly := len(value.Data) > len(encoded)/2
		if beside.Kept != mostly || value.Any == nil && !equalParcels(got, value) {
			t.Errorf("%s: kept is %v", value.Label, beside.Kept)
		}
		clear(encoded)
		if changed := len(got.Data) > 0 && got.Data[0] == 0; changed != mostly {
			t.Errorf("%s: the bytes lie in what they were decoded from: %v", value.Label, changed)
		}
		if strings.Trim(got.Label, "\x00") != value.Label {
			t.Errorf("the label %q became %q", value.Label, got.Label)
		}
	}
}

func equalParcels(a, b parcel) bool {
	return a.Label == b.Label && bytes.Equal(a.Data, b.Data) && len(a.More) == len(b.More) && reflect.DeepEqual(a.Any, b.Any)
}

func TestKeptBytesCannotGrowIntoTheirNeighbours(t *testing.T) {
	by, err := codec.For[parcel]()
	must(t, err)
	encoded, err := by.Append(nil, &parcel{Data: filled(1000, 1), Any: "neighbour"})
	must(t, err)
	before := bytes.Clone(encoded)
	beside := new(codec.Beside)
	beside.Keep(len(encoded))
	var got parcel
	_, err = by.DecodeWith(beside, encoded, &got)
	must(t, err)
	got.Data = append(got.Data, "more"...)
	if !beside.Kept || !bytes.Equal(encoded, before) {
		t.Error("what was appended to the value has changed what follows it")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What is decoded into memory that a value has is the same, and lies there.
func TestReusedBytes(t *testing.T) {
	by, err := codec.For[parcel](codec.IgnoreUnknownFields)
	must(t, err)
	into := parcel{Label: "former", Data: filled(1000, 9), More: [][]byte{{1}}, Any: "former"}
	room := into.Data[:1]
	for _, value := range []parcel{{Label: "shorter", Data: filled(10, 1)}, {Label: "longer", Data: filled(1001, 2)}, {}} {
		encoded, err := by.Append(nil, &value)
		must(t, err)
		if _, err := by.DecodeWith(&codec.Beside{Reuses: true}, encoded, &into); err != nil {
			t.Fatal(err)
		}
		if !equalParcels(into, value) {
			t.Errorf("%q became %+v", value.Label, into)
		}
		if reused := room[0] == 1; value.Label == "shorter" && !reused {
			t.Error("the memory of the value was not used")
		}
	}
	// Fields that did not come are not left over.
	into = parcel{Label: "former", Data: filled(1000, 9)}
	other, err := codec.For[struct {
		Label string `nearcall:"label"`
	}]()
	must(t, err)
	encoded, err := other.Append(nil, &struct {
		Label string `nearcall:"label"`
	}{"alone"})
	must(t, err)
	if _, err := by.DecodeWith(&codec.Beside{Reuses: true}, encoded, &into); err != nil || into.Label != "alone" || into.Data != nil {
		t.Errorf("%+v, %v", into, err)
	}
}

func TestBorrowedBytes(t *testing.T) {
	by, err := codec.For[parcel]()
	must(t, err)
	value := parcel{Label: "a", Data: filled(10, 1), More: [][]byte{filled(2, 2), {}}}
	encoded, err := by.Append(nil, &value)
	must(t, err)
	beside := new(codec.Beside)
	beside.Borrow()
	var got parcel
	if _, err := by.DecodeWith(beside, encoded, &got); err != nil || !equalParcels(got, value) {
		t.Fatalf("%+v, %v", got, err)
	}
	clear(encoded)
	if got.Data[0] != 0 || got.More[0][0] != 0 {
		t.Error("the bytes were copied")
	}
}

// Values of a map are decoded one after the other, and none into the memory of another.
func TestReuseLeavesValuesOfMapsAlone(t *testing.T) {
	type maps struct {
		Named    map[string][]byte `nearcall:"named"`
		Numbered map[int16][]byte  `nearcall:"numbered"`
		Parcels  map[int16]parcel  `nearcall:"parcels"`
	}
	value := maps{Named: map[string][]byte{}, Numbered: map[int16][]byte{}, Parcels: map[int16]parcel{}}
	for i := range 5 {
		data := filled(10-i, byte(i+1))
		value.Named[string(rune('a'+i))], value.Numbered[int16(i)] = data, data
		value.Parcels[int16(i)] = parcel{Label: "a", Data: data}
	}
	by, err := codec.For[maps]()
	must(t, err)
	encoded, err := by.Append(nil, &value)
	must(t, err)
	var into maps
	for range 2 {
		if _, err := by.DecodeWith(&codec.Beside{Reuses: true}, encoded, &into); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(into.Named, value.Named) || !reflect.DeepEqual(into.Numbered, value.Numbered) {
			t.Errorf("the maps became %v and %v", into.Named, into.Numbered)
		}
		for i, want := range value.Parcels {
			if !equalParcels(into.Parcels[i], want) {
				t.Errorf("value %d became %v, want %v", i, into.Parcels[i], want)
			}
		}
	}
}
