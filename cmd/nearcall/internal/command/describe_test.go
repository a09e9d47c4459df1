package command_test

import (
	"encoding/json"
	"net"
	"os"
	"testing"

	"github.com/nearcall/nearcall/server"
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

// Functions that pass files are shown, and are not to be called from here.
func TestFilesAreShown(t *testing.T) {
	address := serve(t, func(s *server.Server) {
		must(t, s.Register("open", func(name string) (*os.File, error) { return os.Open(name) }, server.Params("name")))
		must(t, s.Register("greet", func(all []*net.TCPConn, log **os.File) {}, server.Params("all", "log")))
	})
	nearcall(t, "list", address).expect(t, 0, "open(name string) file", "greet(all list of connection, log optional file)")
	nearcall(t, "describe", schemaFile(t, address), "open").expect(t, 0, "open(name string) file")
	nearcall(t, "call", address, "open", os.DevNull).expect(t, 64+3, "call it from a program", "not executed")
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
