package server

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// wantAsPackageJSON holds the reader of plain requests to what package json makes of them.
func wantAsPackageJSON(t *testing.T, message []byte) {
	t.Helper()
	var plain simpleRequest
	if !utf8.Valid(message) || !plain.parsePlain(message) {
		return
	}
	if plain.arguments == nil {
		plain.arguments = noArguments
	}
	want, err := parseUnusualRequest(message)
	if err != nil {
		t.Errorf("%q is accepted as %+v; package json: %v", message, plain, err)
		return
	}
	if !bytes.Equal(plain.function, want.function) || !bytes.Equal(plain.arguments, want.arguments) ||
		plain.timeoutMs != want.timeoutMs || plain.hasTimeout != want.hasTimeout ||
		plain.description != want.description || plain.hasDescription != want.hasDescription {
		t.Errorf("%q is %+v, for package json %+v", message, plain, want)
	}
}

var messages = []string{
	`{"f":"add","a":[1,2]}`, ` { "f" : "add" , "a" : [ 1 , 2 ] } `, `{"a":[],"f":"one","t":1.5,"d":"0123abcd"}`, `{"f":"one"}`, `{"f":"ä"}`,
	`{"f":""}`, `{"f":null}`, `{"f":"a","f":"a"}`, `{"f":"a","a":[],"a":[]}`, `{"f":"a","t":1,"t":1}`, `{"f":"a","d":"x","d":"x"}`,
	`{"F":"a"}`, `{"f":1}`, `{"\u0066":"a"}`, `{"f":"\u0061"}`, `{"f":"a\\"}`, `{"f":"a","b":1}`, `{"f":"a","t":"1"}`, `{"f":"a","t":null}`, `{"f":"a","t":1e999}`,
	`{"f":"a","t":true}`, `{"f":"a","d":5}`, `{"f":"a","d":null}`, `{"f":"a","a":null}`, `{"f":"a","a":{}}`, `{"f":"a","a":"[]"}`, `{"f":"a","a":[}`, `{"f":"a"}}`, `{"f":"a"} {}`,
	`{"f":"a",}`, `{,"f":"a"}`, `{"f" "a"}`, `{"f":}`, `{"f":"a"`, `{"f"`, `{"`, `{`, `{}`, `[]`, `"f"`, `{"f":"a","a":[[[[[["x",{"y":1}]]]]]]}`, "{\"f\":\"a\n\"}", `{"f":"a"; "t":1}`,
	`{"ff":"a"}`, `{"":"a"}`, `{f:"a"}`,
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
