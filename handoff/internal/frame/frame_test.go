package frame_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/handoff/internal/frame"
)

var limits = frame.Limits{PrefixBytesMax: 100, MessageBytesMax: 50}

func give() frame.Frame {
	return frame.Frame{Type: frame.Give, Kind: frame.Connection, ID: 7, Name: "shop", Local: "tcp:192.0.2.1:80",
		Remote: "tcp:198.51.100.7:4711", Message: []byte("for you"), Prefix: []byte("GET / HTTP/1.1\r\n")}
}

func TestRoundTrip(t *testing.T) {
	for _, sent := range []frame.Frame{
		give(),
		{Type: frame.Give, Kind: frame.File, ID: 1, Resource: make([]byte, 628)},
		{Type: frame.Taken, ID: 1 << 60},
		{Type: frame.Refused, ID: 3, Reason: frame.Draining, Message: []byte("going home")},
		{Type: frame.Recall, ID: 4},
		{Type: frame.Drain},
		{Type: frame.Want, ID: 5, Name: "web"},
		{Type: frame.Done, ID: 5},
		{Type: frame.Ping, ID: 6},
		{Type: frame.Pong, ID: 6},
	} {
		encoded := sent.Append(nil)
		header, err := frame.ParseHeader(encoded, limits)
		if err != nil {
			t.Errorf("%+v: %v", sent, err)
			continue
		}
		if got := header.Split(encoded[frame.HeaderBytes:]); !reflect.DeepEqual(got, sent) {
			t.Errorf("sent %+v, got %+v", sent, got)
		}
	}
}

// Every byte of a header means something: each that is changed to 0xff is noticed,
// or changes a field that may have any value.
func TestEveryByteOfAHeaderIsLookedAt(t *testing.T) {
	encoded := (&frame.Frame{Type: frame.Taken, ID: 1}).Append(nil)
	for i := range encoded {
		damaged := bytes.Clone(encoded)
		damaged[i] ^= 0xff
		header, err := frame.ParseHeader(damaged, limits)
		if isID := i >= 8 && i < 16; isID != (err == nil) {
			t.Errorf("byte %d changed: %+v, %v", i, header, err)
		} else if err != nil && !errors.Is(err, frame.ErrProtocol) {
			t.Errorf("byte %d changed: %v is no breach of the protocol", i, err)
		}
	}
}

func TestRefusedHeaders(t *testing.T) {
	for name, change := range map[string]func(b []byte){
		"no type":                  func(b []byte) { b[4] = 0 },
		"a type too many":          func(b []byte) { b[4] = 10 },
		"no kind":                  func(b []byte) { b[5] = 0 },
		"a kind too many":          func(b []byte) { b[5] = 4 },
		"a reason with a gift":     func(b []byte) { b[6] = 1 },
		"no id":                    func(b []byte) { b[8] = 0 },
		"a prefix above the limit": func(b []byte) { b[16], b[0] = 101, b[0]-16+101 },
		"a length that lies":       func(b []byte) { b[0]++ },
		"a length of 4 GiB":        func(b []byte) { copy(b, "\xff\xff\xff\xff") },
		"parts of 4 GiB":           func(b []byte) { copy(b[16:], "\xff\xff\xff\xff\xff\xff\xff\xff") },
	} {
		sent := give()
		encoded := sent.Append(nil)
		change(encoded)
		if header, err := frame.ParseHeader(encoded, limits); !errors.Is(err, frame.ErrProtocol) {
			t.Errorf("%s: %+v, %v", name, header, err)
		}
	}
}

func TestCheckNamesThePartThatIsTooLong(t *testing.T) {
	for part, change := range map[string]func(f *frame.Frame){
		"prefix":         func(f *frame.Frame) { f.Prefix = make([]byte, 101) },
		"message":        func(f *frame.Frame) { f.Message = make([]byte, 51) },
		"name":           func(f *frame.Frame) { f.Name = strings.Repeat("n", 256) },
		"local address":  func(f *frame.Frame) { f.Local = strings.Repeat("l", 256) },
		"remote address": func(f *frame.Frame) { f.Remote = strings.Repeat("r", 256) },
	} {
		f := give()
		if err := f.Check(limits); err != nil {
			t.Fatal(err)
		}
		change(&f)
		if err := f.Check(limits); !errors.Is(err, frame.ErrTooLarge) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", part, err)
		}
	}
}

func TestHello(t *testing.T) {
	sent := frame.Hello{Lowest: 1, Highest: 3, Process: 12, Takes: frame.TakesConnections | frame.TakesRequests,
		Window: 64, PrefixBytesMax: 1 << 16, MessageBytesMax: 1 << 15, Refusal: "not today"}
	encoded := sent.Append(nil)
	total, err := frame.HelloTotal(encoded)
	if err != nil || total != len(encoded) {
		t.Fatalf("%d bytes, %v; they are %d", total, err, len(encoded))
	}
	if got := frame.ParseHello(encoded); got != sent {
		t.Errorf("sent %+v, got %+v", sent, got)
	}
	long := frame.Hello{Refusal: strings.Repeat("x", 1<<16)}
	if got := len(long.Append(nil)); got != frame.HelloBytesMax {
		t.Errorf("a long refusal makes %d bytes", got)
	}
	for _, i := range []int{0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11} {
		damaged := bytes.Clone(encoded)
		damaged[i] ^= 0xff
		if _, err := frame.HelloTotal(damaged); !errors.Is(err, frame.ErrProtocol) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	sent := give()
	f.Add(sent.Append(nil)[:frame.HeaderBytes])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < frame.HeaderBytes {
			return
		}
		header, err := frame.ParseHeader(b, limits)
		if err != nil {
			return
		}
		again := header.Split(make([]byte, header.Length))
		if encoded := again.Append(nil); !bytes.Equal(encoded[:frame.HeaderBytes], b[:frame.HeaderBytes]) {
			t.Errorf("% x became % x", b[:frame.HeaderBytes], encoded[:frame.HeaderBytes])
		}
	})
}
