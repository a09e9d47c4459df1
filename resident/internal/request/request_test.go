package request_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/resident/internal/request"
)

func example() request.Request {
	return request.Request{
		Header:    request.Header{Kind: request.Run, Keyring: 0x11223344, ProcessID: 0x01020304, Umask: 0o27, Rows: 24, Columns: 80},
		Directory: "/home", Arguments: []string{"page", "", "a b"}, Variables: []string{"A=1", "EMPTY="},
	}
}

// decode takes the bytes of a whole request.
func decode(b []byte) (request.Request, error) {
	h, err := request.ParseHeader(b)
	if err != nil {
		return request.Request{}, err
	}
	return h.ParseBody(b[request.HeaderBytes:])
}

// The bytes are those of the specification.
func TestBytes(t *testing.T) {
	got, err := example().Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "\x8bNCR\r\n\x1a\n" + "\x4b\x00\x00\x00" + "\x01\x00" + "\x01\x00" + "\x04\x03\x02\x01" + "\x17\x00\x00\x00" +
		"\x18\x00" + "\x50\x00" + "\x03\x00\x00\x00" + "\x02\x00\x00\x00" + "\x44\x33\x22\x11" + strings.Repeat("\x00", 8) +
		"/home\x00page\x00\x00a b\x00A=1\x00EMPTY=\x00"
	if string(got) != want {
		t.Errorf("%q\nand not\n%q", got, want)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, want := range []request.Request{
		example(),
		{Header: request.Header{Kind: request.Run}, Arguments: []string{""}},
		{Header: request.Header{Kind: request.Status, ProcessID: 7}},
		{Header: request.Header{Kind: request.Stop}},
	} {
		b, err := want.Append([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(b[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		again, err := got.Append([]byte("before"))
		if err != nil || !bytes.Equal(b, again) || got.Directory != want.Directory || len(got.Arguments) != len(want.Arguments) {
			t.Errorf("%+v came back as %+v, %v", want, got, err)
		}
	}
}

// What cannot be sent is not.
func TestAppendRefuses(t *testing.T) {
	nul, long := example(), example()
	nul.Arguments[1] = "a\x00b"
	long.Variables = []string{strings.Repeat("x", wire.ResidentRequestBytesMax)}
	for _, r := range []request.Request{nul, long} {
		if b, err := r.Append(nil); !errors.Is(err, request.ErrMalformed) || len(b) != 0 {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
}

// What breaks the rules is refused, whatever it claims.
func TestParseRefuses(t *testing.T) {
	good, err := example().Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(b []byte) []byte{
		"short":              func(b []byte) []byte { return b[:47] },
		"magic":              func(b []byte) []byte { b[7]++; return b },
		"total":              func(b []byte) []byte { b[8]--; return b },
		"total of the limit": func(b []byte) []byte { b[11] = 1; return b },
		"kind":               func(b []byte) []byte { b[14] = 0; return b },
		"umask":              func(b []byte) []byte { b[21] = 0x02; return b },
		"arguments":          func(b []byte) []byte { b[28]--; return b },
		"no arguments":       func(b []byte) []byte { b[28] = 0; return b },
		"variables":          func(b []byte) []byte { b[32]++; return b },
		"no end":             func(b []byte) []byte { b[len(b)-1] = 'x'; return b },
		"status with a body": func(b []byte) []byte { b[14] = 2; return b },
	} {
		if r, err := decode(change(bytes.Clone(good))); !errors.Is(err, request.ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	good[12] = 2
	if _, err := decode(good); !errors.Is(err, request.ErrVersion) {
		t.Errorf("another version: %v", err)
	}
}

func TestFrames(t *testing.T) {
	for _, want := range []request.Frame{
		{Type: request.Running, Value: 1, Second: 0xffffffff},
		{Type: request.Plainly, Text: "why"},
	} {
		b := want.Append(nil)
		got, textBytes, err := request.ParseFrame(b)
		got.Text = string(b[request.FrameHeaderBytes:])
		if err != nil || textBytes != len(want.Text) || got != want {
			t.Errorf("%+v came back as %+v with %d bytes, %v", want, got, textBytes, err)
		}
	}
	long := request.Frame{Type: request.Report, Text: strings.Repeat("x", wire.ResidentTextBytesMax+1)}
	if b := long.Append(nil); len(b) != request.FrameHeaderBytes+wire.ResidentTextBytesMax {
		t.Errorf("a long text makes %d bytes", len(b))
	}
	for _, b := range [][]byte{make([]byte, 15), append(make([]byte, 12), 1, 0, 1, 0)} {
		if _, _, err := request.ParseFrame(b); !errors.Is(err, request.ErrMalformed) {
			t.Errorf("%v: %v", b, err)
		}
	}
}

func TestExecute(t *testing.T) {
	want := []string{"editor", "", "a file"}
	f, err := request.ExecuteFrame(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.ExecuteArguments(); err != nil || !reflect.DeepEqual(got, want) || f.Text != "editor\x00\x00a file\x00" {
		t.Errorf("%q, %v", got, err)
	}
	for _, arguments := range [][]string{nil, {"a\x00b"}, {strings.Repeat("x", wire.ResidentTextBytesMax)}} {
		if _, err := request.ExecuteFrame(arguments); !errors.Is(err, request.ErrMalformed) {
			t.Errorf("%.20q: %v", arguments, err)
		}
	}
	for _, f := range []request.Frame{{Type: request.Report, Value: 1, Text: "a\x00"}, {Type: request.Execute}, {Type: request.Execute, Value: 2, Text: "a\x00"},
		{Type: request.Execute, Value: 1, Text: "a\x00b\x00"}, {Type: request.Execute, Value: 1 << 31, Text: "a\x00"}} {
		if got, err := f.ExecuteArguments(); !errors.Is(err, request.ErrMalformed) {
			t.Errorf("%+v: %q, %v", f, got, err)
		}
	}
}

// What is accepted means one thing: it comes back as the same bytes.
func FuzzRequest(f *testing.F) {
	for _, r := range []request.Request{example(), {Header: request.Header{Kind: request.Status}}} {
		b, err := r.Append(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if err != nil {
			if !errors.Is(err, request.ErrMalformed) && !errors.Is(err, request.ErrVersion) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		copy(b[40:request.HeaderBytes], make([]byte, 8)) // reserved: what is there is ignored
		if again, err := r.Append(nil); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%q came back as %q, %v", b, again, err)
		}
	})
}

// A frame that is accepted has its text within the limit, and arguments as counted.
func FuzzFrame(f *testing.F) {
	execute, err := request.ExecuteFrame([]string{"editor", "file"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(execute.Append(nil))
	f.Add(request.Frame{Type: request.Signal, Value: 28, Second: 24<<16 | 80}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, textBytes, err := request.ParseFrame(b)
		if err != nil || len(b) < request.FrameHeaderBytes+textBytes {
			return
		}
		whole := b[:request.FrameHeaderBytes+textBytes]
		frame.Text = string(whole[request.FrameHeaderBytes:])
		if again := frame.Append(nil); !bytes.Equal(again, whole) {
			t.Fatalf("%q came back as %q", whole, again)
		}
		arguments, err := frame.ExecuteArguments()
		if err != nil {
			return
		}
		if again, err := request.ExecuteFrame(arguments); err != nil || again.Text != frame.Text {
			t.Fatalf("%q came back as %q, %v", frame.Text, again.Text, err)
		}
	})
}
