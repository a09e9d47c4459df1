//go:build unix

package handoff_test

import (
	"crypto/tls"
	"reflect"
	"testing"

	"github.com/nearcall/nearcall/handoff"
)

// fuzzBytesMax keeps a run that looks at every beginning of its input short.
const fuzzBytesMax = 2048

// FuzzRequestHead: however the bytes are cut into segments, the head is the same,
// and what is refused early could not have become one.
func FuzzRequestHead(f *testing.F) {
	for _, head := range heads {
		f.Add([]byte(head))
		f.Add([]byte(head + "more"))
	}
	for _, text := range []string{"", "\r\n", "GET /\r\n\r\n", "GET / HTTP/1.1\r\nHost\r\n\r\n", "\x16\x03\x01"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		expectSameHoweverCut(t, data, handoff.RequestHead)
	})
}

// FuzzClientHello: the same for TLS.
func FuzzClientHello(f *testing.F) {
	hello := clientHello(f, &tls.Config{ServerName: "a", NextProtos: []string{"h2"}, CurvePreferences: []tls.CurveID{tls.X25519}})
	f.Add(hello)
	f.Add(records(hello, 1))
	f.Add(records(hello, 100))
	f.Add(append(records(hello, 50), "more"...))
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		expectSameHoweverCut(t, data, handoff.ClientHello)
	})
}

// expectSameHoweverCut compares what is found when bytes come one by one with what
// is found when they come at once.
func expectSameHoweverCut[T any](t *testing.T, data []byte, look func() func([]byte) (*T, error)) {
	t.Helper()
	if len(data) > fuzzBytesMax {
		return
	}
	atOnce, errAtOnce := look()(data)
	var found *T
	var err error
	for slowly, length := look(), 1; length <= len(data) && found == nil && err == nil; length++ {
		found, err = slowly(data[:length])
	}
	if (err == nil) != (errAtOnce == nil) || !reflect.DeepEqual(without(found), without(atOnce)) {
		t.Fatalf("byte by byte %+v, %v; at once %+v, %v", found, err, atOnce, errAtOnce)
	}
}

// without leaves out what no two results share: the connection that was parsed, and
// functions.
func without(result any) any {
	if hello, ok := result.(*tls.ClientHelloInfo); ok && hello != nil {
		return [...]any{hello.ServerName, hello.SupportedProtos, hello.SupportedVersions, hello.CipherSuites, hello.Extensions}
	}
	return result
}
