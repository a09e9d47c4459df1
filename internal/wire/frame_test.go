package wire_test

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

func parser(from wire.Side) wire.Parser {
	return wire.Parser{From: from, FrameBytesMax: wire.FrameBytesMax}
}

func request(change func(*wire.Frame)) wire.Frame {
	frame := wire.Frame{
		Header:     wire.Header{Type: wire.Request, Codec: wire.CodecMessagePack, CallID: 7, FunctionID: 3, Deadline: 9},
		Extensions: wire.AppendExtension(nil, wire.ExtensionTraceParent, "00-0-0-01"),
		Payload:    []byte{0x90},
	}
	if change != nil {
		change(&frame)
	}
	return frame
}

func TestFramesSurviveTheWire(t *testing.T) {
	for _, frame := range []wire.Frame{
		request(nil),
		request(func(f *wire.Frame) { f.Extensions, f.Payload = nil, nil }),
		{Header: wire.Header{Type: wire.Cancel, CallID: math.MaxUint64}},
		{Header: wire.Header{Type: wire.Ping}, Payload: make([]byte, wire.PingBytesMax)},
		{Header: wire.Header{Type: wire.Resolve, CallID: 8}, Payload: []byte("f")},
	} {
		data := frame.Append(nil)
		p := parser(wire.CallerSide)
		var got wire.Frame
		for cut := range data {
			if n, err := p.Next(data[:cut], &got); n != 0 || err != nil {
				t.Fatalf("%s cut to %d bytes: %d, %v", frame.Type, cut, n, err)
			}
		}
		n, err := p.Next(append(data, 0xFF), &got)
		if err != nil || n != len(data) {
			t.Fatalf("%s: %d of %d bytes, %v", frame.Type, n, len(data), err)
		}
		if got.Header != frame.Header && got.CallID != frame.CallID {
			t.Errorf("header %+v, want %+v", got.Header, frame.Header)
		}
		if !bytes.Equal(got.Payload, frame.Payload) || !bytes.Equal(got.Extensions, frame.Extensions) {
			t.Errorf("%s: contents differ", frame.Type)
		}
	}
}

func TestIllegalFramesAreRefused(t *testing.T) {
	illegal := map[string]wire.Header{
		"type 0":                  {Type: 0},
		"unknown type":            {Type: 12},
		"wrong direction":         {Type: wire.Reply, CallID: 1},
		"stream without feature":  {Type: wire.StreamEnd, CallID: 1},
		"length above the limit":  {Type: wire.Request, CallID: 1, FunctionID: 1, Length: wire.FrameBytesMax + 1},
		"length 4 GiB":            {Type: wire.Request, CallID: 1, FunctionID: 1, Length: math.MaxUint32},
		"extensions above length": {Type: wire.Request, CallID: 1, Length: 3, ExtensionBytes: 4},
		"extensions above limit":  {Type: wire.Request, CallID: 1, Length: 9000, ExtensionBytes: wire.ExtensionBytesMax + 1},
		"call id 0":               {Type: wire.Request},
		"call id on a ping":       {Type: wire.Ping, CallID: 1},
		"reserved flag":           {Type: wire.Request, CallID: 1, Flags: 0x80},
		"stream flag":             {Type: wire.Request, CallID: 1, Flags: wire.FlagStream},
		"descriptors":             {Type: wire.Request, CallID: 1, Descriptors: 1},
		"payload on a cancel":     {Type: wire.Cancel, CallID: 1, Length: 1},
		"large ping":              {Type: wire.Ping, Length: wire.PingBytesMax + 1},
		"empty resolve":           {Type: wire.Resolve, CallID: 1},
		"long resolve":            {Type: wire.Resolve, CallID: 1, Length: wire.FunctionNameBytesMax + 1},
		"codec on a cancel":       {Type: wire.Cancel, CallID: 1, Codec: 1},
		"function on a cancel":    {Type: wire.Cancel, CallID: 1, FunctionID: 1},
		"deadline on a cancel":    {Type: wire.Cancel, CallID: 1, Deadline: 1},
		"status on a request":     {Type: wire.Request, CallID: 1, Status: 1},
		"extensions on a resolve": {Type: wire.Resolve, CallID: 1, Length: 5, ExtensionBytes: 4},
	}
	for name, header := range illegal {
		p := parser(wire.CallerSide)
		var frame wire.Frame
		var violation *wire.ProtocolError
		if _, err := p.Next(header.Append(nil), &frame); !errors.As(err, &violation) {
			t.Errorf("%s: %v, want a ProtocolError before anything but the header has come", name, err)
		}
	}
}

func TestCallIDsOnlyGrow(t *testing.T) {
	p := parser(wire.CallerSide)
	var frame wire.Frame
	first, again := request(nil), request(nil)
	if _, err := p.Next(first.Append(nil), &frame); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Next(again.Append(nil), &frame); err == nil {
		t.Error("a call id was taken twice")
	}
}

func TestExtensionsMustFillTheirSpace(t *testing.T) {
	for _, bad := range [][]byte{{1}, {1, 0, 1, 0}, {1, 0, 0xFF, 0xFF, 0}, append(wire.AppendExtension(nil, 1, "x"), 1, 2, 3)} {
		frame := request(func(f *wire.Frame) { f.Extensions = bad })
		p := parser(wire.CallerSide)
		if _, err := p.Next(frame.Append(nil), new(wire.Frame)); err == nil {
			t.Errorf("extensions % x were accepted", bad)
		}
	}
}

func TestHandshake(t *testing.T) {
	hello := wire.Hello{VersionMin: 1, VersionMax: 3, Offered: 5, Required: 1, ProcessID: 2, FrameBytesMax: 1 << 20, ClockNs: 9, Software: "x/1"}
	data := hello.Append(nil)
	var gotHello wire.Hello
	for cut := range data {
		if n, err := wire.ParseHello(data[:cut], &gotHello); n != 0 || err != nil {
			t.Fatalf("hello cut to %d: %d, %v", cut, n, err)
		}
	}
	if n, err := wire.ParseHello(data, &gotHello); err != nil || n != len(data) {
		t.Fatal(n, err)
	}
	gotHello.Extensions = nil
	if gotHello.Software != hello.Software || gotHello.Offered != hello.Offered || gotHello.ClockNs != hello.ClockNs {
		t.Errorf("hello %+v, want %+v", gotHello, hello)
	}

	welcome := wire.Welcome{Version: 1, Accepted: 1, Instance: 8, FrameBytesMax: 1 << 20, CallsInFlightMax: 4, SchemaHash: 77, Software: "y/2"}
	data = welcome.Append(nil)
	var got wire.Welcome
	if n, err := wire.ParseWelcome(data, &got); err != nil || n != len(data) || got != welcome {
		t.Errorf("welcome %+v, %v, want %+v", got, err, welcome)
	}
	refusal := wire.Welcome{Status: 7, Refusal: "not you"}
	if _, err := wire.ParseWelcome(refusal.Append(nil), &got); err != nil || got.Refusal != "not you" {
		t.Errorf("refusal %+v, %v", got, err)
	}
}

func TestDeadlineField(t *testing.T) {
	const hour = time.Hour
	for _, clockMs := range []uint64{0, 1, math.MaxInt32, math.MaxUint32 - 500, math.MaxUint32, 1 << 40} {
		for _, remaining := range []time.Duration{-hour, 0, 1, time.Millisecond, 1500 * time.Millisecond, hour, 500 * hour} {
			for _, shared := range []bool{true, false} {
				field := wire.DeadlineField(clockMs, remaining, shared)
				if field == 0 {
					t.Fatalf("DeadlineField(%d, %v) means none", clockMs, remaining)
				}
				got := wire.DeadlineRemaining(field, clockMs, shared)
				want := max(remaining, 0)
				if got < want || got > want+2*time.Millisecond {
					t.Errorf("clock %d, %v left, shared %v: came out as %v", clockMs, remaining, shared, got)
				}
			}
		}
	}
	if field := wire.DeadlineField(0, 1000*hour, true); field != 0 {
		t.Errorf("1000 hours are %d, want none", field)
	}
	if got := wire.DeadlineRemaining(wire.DeadlineField(1000, time.Second, true), 5000, true); got >= 0 {
		t.Errorf("a deadline that passed 3 s ago has %v left", got)
	}
}

func FuzzParser(f *testing.F) {
	frame := request(nil)
	f.Add(frame.Append(nil), uint8(wire.CallerSide), uint64(0))
	f.Add(make([]byte, wire.HeaderBytes), uint8(wire.ServerSide), uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, data []byte, side uint8, features uint64) {
		p := wire.Parser{From: wire.Side(side), FrameBytesMax: wire.FrameBytesMax, Features: wire.Feature(features)}
		for len(data) > 0 {
			var frame wire.Frame
			n, err := p.Next(data, &frame)
			if err != nil || n == 0 {
				return
			}
			if again := frame.Append(nil); !bytes.Equal(again, data[:n]) {
				t.Fatalf("parsed % x, encoded % x", data[:n], again)
			}
			data = data[n:]
		}
	})
}

func FuzzHandshake(f *testing.F) {
	hello, welcome := wire.Hello{FrameBytesMax: 1 << 20, Software: "x"}, wire.Welcome{Refusal: "x"}
	f.Add(hello.Append(nil))
	f.Add(welcome.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var h wire.Hello
		if n, err := wire.ParseHello(data, &h); err == nil && n > len(data) {
			t.Fatalf("%d bytes of %d", n, len(data))
		}
		var w wire.Welcome
		if n, err := wire.ParseWelcome(data, &w); err == nil && n > len(data) {
			t.Fatalf("%d bytes of %d", n, len(data))
		}
	})
}
