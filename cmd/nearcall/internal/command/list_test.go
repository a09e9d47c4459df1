package command_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	address := serveDemo(t)
	got := nearcall(t, "list", address).expect(t, 0, "ack(m int64, n int64) int64", "sum(numbers... int64) int64", "Greets a person.")
	if strings.Contains(got.out, "\x1b") {
		t.Fatal("there is colour in a pipe")
	}
	path := schemaFile(t, address)
	if fromFile := nearcall(t, "list", path); fromFile != got {
		t.Fatalf("from the file:\n%s\nfrom the server:\n%s", fromFile.out, got.out)
	}
	if text := nearcall(t, "schema", "export", address); nearcallWith(t, text.out, "list", "-") != got {
		t.Fatal("from standard input it is another list")
	}
}

func TestListAsJSON(t *testing.T) {
	got := nearcall(t, "list", "--json", serveDemo(t)).expect(t, 0)
	var functions []struct{ Name string }
	must(t, json.Unmarshal([]byte(got.out), &functions))
	if len(functions) < 20 || functions[0].Name != "one" {
		t.Fatalf("got %v", functions)
	}
}

// A terminal gets bold names, unless NO_COLOR is set.
func TestListOnATerminal(t *testing.T) {
	address := serveDemo(t)
	for _, row := range []struct {
		environment string
		bold        bool
	}{{"NO_COLOR=", true}, {"NO_COLOR=1", false}} {
		script := exec.Command("script", "-qec", binary+" list "+address, "/dev/null")
		script.Env = append(script.Environ(), row.environment)
		out, err := script.Output()
		must(t, err)
		if bold := strings.Contains(string(out), "\x1b[1mack\x1b[0m"); bold != row.bold {
			t.Fatalf("%s: bold is %v\n%q", row.environment, bold, out)
		}
	}
}

func TestListFailures(t *testing.T) {
	nearcall(t, "list", "no_such_file").expect(t, 1, "give the address of a server")
	nearcall(t, "list", "embed:/srv/libdemo.so").expect(t, 67, "a Go program cannot load a Go library")
	nearcallWith(t, "{}", "list", "-").expect(t, 1, "schema document")
	nearcall(t, "list", "unix:/no/such/socket").expect(t, 78)
	nearcall(t, "list").expect(t, 2)
	nearcall(t, "lst").expect(t, 2, "unknown command")
}
