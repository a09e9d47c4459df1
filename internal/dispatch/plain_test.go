package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/nearcall/nearcall/internal/dispatch"
	"github.com/nearcall/nearcall/internal/wire"
)

// These have the parameters and results of the functions beside them, by names of their own,
// so that they are called the other way.
type (
	otherInt   int64
	otherUint  uint64
	otherFloat float64
	otherBool  bool
	otherText  string
)

var errOdd = errors.New("odd")

// alike are functions that do the same, and that are called in different ways.
var alike = []struct{ plain, other any }{
	{func() int64 { return 1 << 40 }, func() otherInt { return 1 << 40 }},
	{func() string { return "\xff" }, func() otherText { return "\xff" }},
	{func(a int64) int64 { return -a }, func(a otherInt) otherInt { return -a }},
	{func(a int) (int, error) { return a, errOdd }, func(a otherInt) (otherInt, error) { return a, errOdd }},
	{func(a uint64) uint64 { return a }, func(a otherUint) otherUint { return a }},
	{func(a string) string { return a + "!" }, func(a otherText) otherText { return a + "!" }},
	{func(a string) bool { return a == "" }, func(a otherText) otherBool { return a == "" }},
	{func(a bool) bool { return !a }, func(a otherBool) otherBool { return !a }},
	{func(a []byte) int64 { return int64(len(a)) }, func(a []byte) otherInt { return otherInt(len(a)) }},
	{func(a int64) []byte { return make([]byte, a&0xFF) }, func(a otherInt) []byte { return make([]byte, a&0xFF) }},
	{func(a int64) error { return nil }, func(a otherInt) error { return nil }},
	{func(a, b int64) int64 { return a + b }, func(a, b otherInt) otherInt { return a + b }},
	{func(a, b float64) float64 { return a / b }, func(a, b otherFloat) otherFloat { return a / b }},
	{func(a string, b int64) string { return a }, func(a otherText, b otherInt) otherText { return a }},
	{func(a, b, c int64) (int64, error) { return a - b - c, nil }, func(a, b, c otherInt) (otherInt, error) { return a - b - c, nil }},
	{func(a, b, c string) string { return a + b + c }, func(a, b, c otherText) otherText { return a + b + c }},
}

// pieces are values in all their forms, and what is none.
var pieces = []string{
	"", "\x00", "\x7f", "\xe0", "\xcc\x05", "\xcd\x01\x00", "\xce\xff\xff\xff\xff", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "\xd0\x80",
	"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", "\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", "\xca\x7f\xc0\x00\x00", "\xcb", "\xc0", "\xc2", "\xc3",
	"\xa0", "\xa1x", "\xa2\xc3\xa9", "\xa1\xff", "\xa5xy", "\xd9\x01x", "\xc4\x02xy", "\xc4\x05x", "\x90", "\x80", "\xc1", "\xd4\x05\x00",
}

// payloads puts heads before up to three pieces, of which there are the announced number, fewer or more.
func payloads() (all []string) {
	for _, head := range []string{"", "\x90", "\x91", "\x92", "\x93", "\x94", "\xdc\x00\x01", "\xdc\x00\x02", "\xdd\x00\x00\x00\x03", "\xc0", "\x05"} {
		for i, first := range pieces {
			second := pieces[(i*7+1)%len(pieces)]
			all = append(all, head+first, head+first+first, head+first+second, head+first+first+first, head+first+first+second)
		}
	}
	return all
}

// TestPlainCallsDoWhatOthersDo compares both ways to call for requests of every form: what is
// appended, and all that an error says.
func TestPlainCallsDoWhatOthersDo(t *testing.T) {
	for _, pair := range alike {
		plain, other := make1(t, pair.plain, dispatch.Options{}), make1(t, pair.other, dispatch.Options{})
		answered := 0
		for _, payload := range payloads() {
			got, gotErr := plain.Call(context.Background(), wire.CodecMessagePack, []byte(payload), []byte("kept"))
			want, wantErr := other.Call(context.Background(), wire.CodecMessagePack, []byte(payload), []byte("kept"))
			if !bytes.Equal(got, want) || textOf(gotErr) != textOf(wantErr) {
				t.Errorf("%T of %q: %q and %q, want %q and %q", pair.plain, payload, got, textOf(gotErr), want, textOf(wantErr))
			}
			if gotErr == nil {
				answered++
			}
		}
		t.Logf("%T: %d calls were answered", pair.plain, answered)
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
