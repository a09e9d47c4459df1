package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

// readByPackageJSON reads a request with the decoder of package json alone.
func readByPackageJSON(message []byte) (simpleRequest, error) {
	decoder := json.NewDecoder(bytes.NewReader(message))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return simpleRequest{}, errors.New("it is not an object")
	}
	var m simpleMembers
	seen := map[any]bool{}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return simpleRequest{}, err
		}
		into, known := map[any]any{"f": &m.function, "a": &m.arguments, "t": &m.timeoutMs, "d": &m.description}[name]
		if !known {
			into = new(json.RawMessage)
		}
		if err := decoder.Decode(into); err != nil || known && seen[name] {
			return simpleRequest{}, errors.Join(err, errors.New("a member is there twice, or does not fit"))
		}
		seen[name] = true
	}
	if _, err := decoder.Token(); err != nil {
		return simpleRequest{}, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) || m.function == "" {
		return simpleRequest{}, errors.New("something follows the object, or the function is missing")
	}
	return m.request(), nil
}

// wantAsPackageJSON holds both readers of requests to what package json makes of them.
func wantAsPackageJSON(t *testing.T, message []byte) {
	t.Helper()
	if !utf8.Valid(message) {
		return
	}
	want, errOfJSON := readByPackageJSON(message)
	got, err := parseUnusualRequest(message)
	if (err == nil) != (errOfJSON == nil) || err == nil && !sameRequest(got, want) {
		t.Errorf("%q is %+v, %v; for package json %+v, %v", message, got, err, want, errOfJSON)
	}
	var plain simpleRequest
	if !plain.parsePlain(message) {
		return
	}
	if plain.arguments == nil {
		plain.arguments = noArguments
	}
	if errOfJSON != nil || !sameRequest(plain, want) {
		t.Errorf("%q is %+v, for package json %+v, %v", message, plain, want, errOfJSON)
	}
}

func sameRequest(a, b simpleRequest) bool {
	return bytes.Equal(a.function, b.function) && bytes.Equal(a.arguments, b.arguments) &&
		a.timeoutMs == b.timeoutMs && a.hasTimeout == b.hasTimeout &&
		a.description == b.description && a.hasDescription == b.hasDescription
}

var messages = []string{
	`{"f":"add","a":[1,2]}`, ` { "f" : "add" , "a" : [ 1 , 2 ] } `, `{"a":[],"f":"one","t":1.5,"d":"0123abcd"}`, `{"f":"one"}`, `{"f":"ä"}`,
	`{"f":""}`, `{"f":null}`, `{"f":"a","f":"a"}`, `{"f":"a","a":[],"a":[]}`, `{"f":"a","t":1,"t":1}`, `{"f":"a","d":"x","d":"x"}`,
	`{"F":"a"}`, `{"f":1}`, `{"\u0066":"a"}`, `{"f":"\u0061"}`, `{"f":"a\\"}`, `{"f":"a","b":1}`, `{"f":"a","t":"1"}`, `{"f":"a","t":null}`, `{"f":"a","t":1e999}`,
	`{"f":"a","t":true}`, `{"f":"a","d":5}`, `{"f":"a","d":null}`, `{"f":"a","a":null}`, `{"f":"a","a":{}}`, `{"f":"a","a":"[]"}`, `{"f":"a","a":[}`, `{"f":"a"}}`, `{"f":"a"} {}`,
	`{"f":"a",}`, `{,"f":"a"}`, `{"f" "a"}`, `{"f":}`, `{"f":"a"`, `{"f"`, `{"`, `{`, `{}`, `[]`, `"f"`, `{"f":"a","a":[[[[[["x",{"y":1}]]]]]]}`, "{\"f\":\"a\n\"}", `{"f":"a"; "t":1}`,
	`{"ff":"a"}`, `{"":"a"}`, `{f:"a"}`, `{"f":"a","x":[{"y":"]}\\\""},-1.5e3 ],"z":null }`, `{"f":"a","x":5}`, `{"f":"a","x": true , "a" : [ 1 ] }`,
}

// TestPlainRequestsAreThoseOfPackageJSON: a request that is read without package json is
// what it is for that package, and all that callers usually write is read so.
func TestPlainRequestsAreThoseOfPackageJSON(t *testing.T) {
	for _, message := range messages {
		for end := range len(message) + 1 {
			wantAsPackageJSON(t, []byte(message[:end]))
		}
	}
	for _, message := range messages[:5] {
		if !new(simpleRequest).parsePlain([]byte(message)) {
			t.Errorf("%s is left to package json", message)
		}
	}
}

// TestUnusualRequestsTakeNoMemory: what a request has beside its members, or under names that
// are none of its own, is not copied.
func TestUnusualRequestsTakeNoMemory(t *testing.T) {
	long := strings.Repeat("x", 4<<20)
	for name, message := range map[string]string{
		"text": `{"y":"` + long + `","f":"one"}`, "list": `{"y":[` + strings.Repeat("1,", 2<<20) + `1],"f":"one"}`, "name": `{"\u0041` + long + `":1,"f":"one"}`,
		"arguments": `{"f":"one","unknown":1,"a":["` + long + `"]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := parseSimpleRequest([]byte(message))
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc - uint64(len(message)); err != nil || taken > 1<<20 {
			t.Errorf("%s: %d bytes beside the message, %v", name, taken, err)
		}
	}
}

// FuzzSimpleRequest: the same of any message.
func FuzzSimpleRequest(f *testing.F) {
	for _, message := range messages {
		f.Add([]byte(message))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		_, _ = parseSimpleRequest(message)
		wantAsPackageJSON(t, message)
	})
}
