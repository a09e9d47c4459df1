package examples_test

import (
	"testing"
)

// The programs are the same program, so they print the same.
const hello = `greet: Hello, World!
divide: 3, remainder 2
visit: 1
error: INVALID_ARGUMENT, executed, the divisor is 0
`

func TestHello(t *testing.T) {
	perl := "-Mblib=" + built(t, "perl")
	for _, c := range []struct {
		name    string
		command []string
		plain   bool // speaks the simple protocol and takes the socket's path
	}{
		{"C", []string{built(t, "examples/client_c")}, false},
		{"Go", []string{built(t, "examples/client")}, false},
		{"Perl", []string{"perl", perl, "hello/client.pl"}, false},
		{"Python", []string{built(t, "examples/venv/bin/python"), "hello/client.py"}, false},
		{"Perl without a library", []string{"perl", "hello/client_plain.pl"}, true},
		{"Python without a library", []string{"python3", "hello/client_plain.py"}, true},
		{"bash", []string{"bash", "hello/client.sh"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, socket := helloServer(t)
			address := "unix:" + socket
			if c.plain {
				address = socket
			}
			if got := output(t, nil, c.command[0], append(c.command[1:], address)...); got != hello {
				t.Errorf("printed:\n%swant:\n%s", got, hello)
			}
		})
	}
}

// The same, with the functions in the program's own process.
func TestHelloLibrary(t *testing.T) {
	address := "embed:" + built(t, "examples/libhello.so")
	for name, command := range map[string][]string{
		"C":      {built(t, "examples/client_c")},
		"Perl":   {"perl", "-Mblib=" + built(t, "perl"), "hello/client.pl"},
		"Python": {built(t, "examples/venv/bin/python"), "hello/client.py"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := output(t, nil, command[0], append(command[1:], address)...); got != hello {
				t.Errorf("printed:\n%swant:\n%s", got, hello)
			}
		})
	}
}
