package command_test

import (
	"encoding/json"
	"testing"
)

func TestDescribe(t *testing.T) {
	address := serveDemo(t)
	want := `greet(person Person) string
    Greets a person.
    Calling it twice does no harm.

    Person has the fields
        name  string
        age   optional int64
        tags  list of string
`
	nearcall(t, "describe", address, "greet").expectOut(t, want)
	nearcall(t, "describe", schemaFile(t, address), "greet").expectOut(t, want)
	nearcall(t, "describe", address).expect(t, 0, want, "ack(m int64, n int64) int64")
	nearcall(t, "describe", address, "no_such_function").expect(t, 76)
	nearcall(t, "describe", schemaFile(t, address), "no_such_function").expect(t, 1, "nearcall list")
}

func TestDescribeAsJSON(t *testing.T) {
	got := nearcall(t, "describe", "--json", serveDemo(t), "greet").expect(t, 0)
	var description struct {
		Name  string
		Types map[string]any
	}
	must(t, json.Unmarshal([]byte(got.out), &description))
	if description.Name != "greet" || description.Types["Person"] == nil {
		t.Fatalf("got %s", got.out)
	}
}
