package command_test

import (
	"encoding/json"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

func TestCall(t *testing.T) {
	address := serveDemo(t)
	for _, row := range []struct {
		args []string
		out  string
	}{
		{[]string{"ack", "2", "3"}, "9\n"},
		{[]string{"add", "-1", "0.5"}, "-0.5\n"},
		{[]string{"upper", "grün"}, "GRÜN\n"},
		{[]string{"upper", "--json"}, "--JSON\n"},
		{[]string{"echo", "bytes"}, "bytes"},
		{[]string{"sum", "1", "2", "3"}, "6\n"},
		{[]string{"sum"}, "0\n"},
		{[]string{"divmod", "17", "5"}, "[3,2]\n"},
		{[]string{"greet", `{"name": "Ada", "age": 36, "tags": ["a", "b"]}`}, "Hello, Ada, 36 [a,b]\n"},
		{[]string{"move", `{"x": 1, "y": 2}`, `{"x": 3}`}, "{\"x\":4,\"y\":2}\n"},
		{[]string{"word_count", "b b"}, "{\"b\":2}\n"},
		{[]string{"later", "2026-01-02T03:04:05Z", "1.5s"}, "\"2026-01-02T03:04:06.5Z\"\n"},
		{[]string{"optional_sum", "5"}, "5\n"},
		{[]string{"optional_sum", "5", "null"}, "5\n"},
		{[]string{"optional_sum", "5", "6"}, "11\n"},
		{[]string{"identity", `[1, "two", null]`}, "[1,\"two\",null]\n"},
		{[]string{"identity", "no JSON"}, "\"no JSON\"\n"},
	} {
		nearcall(t, append([]string{"call", address}, row.args...)...).expectOut(t, row.out)
	}
}

// An address may have several endpoints, of which the first need not be there.
func TestCallOneOfSeveral(t *testing.T) {
	address := "unix:/nonexistent/s | " + serveDemo(t)
	nearcall(t, "call", address, "ack", "2", "3").expectOut(t, "9\n")
	nearcall(t, "list", address).expect(t, 0, "ack")
	nearcall(t, "call", "unix:/nonexistent/s|tcp:127.0.0.1:1", "ack", "2", "3").expect(t, 78, "unix:/nonexistent/s", "tcp:127.0.0.1:1")
	nearcall(t, "demo", "--address", address).expect(t, 1, "several endpoints")
}

func TestCallJSONAndRaw(t *testing.T) {
	address := serveDemo(t)
	nearcall(t, "call", "--json", address, "upper", "a").expectOut(t, "\"A\"\n")
	nearcall(t, "call", "--json", address, "echo", "a").expectOut(t, "\"YQ==\"\n")
	nearcall(t, "call", "--raw", address, "echo", "\xff").expectOut(t, "\xff")
	nearcall(t, "call", "--raw", address, "echo").expectOut(t, "")
	nearcall(t, "call", "--raw", "--json", address, "echo").expect(t, 2)
	nearcall(t, "call", "--raw", address, "echo", "a", "b").expect(t, 2, "--raw sends one argument")
}

func TestCallSendsMetadata(t *testing.T) {
	const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	address := serve(t, demo.RegisterMetadata)
	nearcall(t, "call", "--metadata", "tenant=acme", "--metadata", "tenant=b=c", "--traceparent", traceParent, address, "metadata_seen").
		expectOut(t, traceParent+` map["tenant":["acme" "b=c"]] []`+"\n")
	nearcall(t, "call", "--raw", "--metadata", "tenant=acme", address, "metadata_raw", "!").expectOut(t, "[acme]!")
	nearcall(t, "call", "--metadata", "tenant", address, "metadata_seen").expect(t, 2, "KEY=VALUE")
	nearcall(t, "call", "--metadata", "Tenant=acme", address, "metadata_seen").expect(t, 67, "lower-case letters")
	nearcall(t, "call", "--traceparent", "00", address, "metadata_seen").expect(t, 67, "trace parent")
}

func TestCallReadsStandardInput(t *testing.T) {
	address := serveDemo(t)
	nearcallWith(t, "from a pipe\x00", "call", address, "echo", "-").expectOut(t, "from a pipe\x00")
	nearcallWith(t, "text", "call", address, "upper", "-").expectOut(t, "TEXT\n")
	nearcallWith(t, "raw", "call", "--raw", address, "echo", "-").expectOut(t, "raw")
	nearcallWith(t, "unread", "call", address, "identity", "-").expectOut(t, "\"-\"\n")
}

// Messages say the next step, and their own name once.
func TestCallSaysWhatToDo(t *testing.T) {
	address := serveDemo(t)
	nearcall(t, "call", address, "ack", "3", "4", "--json").expect(t, 67, "3 came; the function is ack(m int64, n int64) int64; flags stand before the address")
	nearcall(t, "call", address, "later", "2026-01-02T03:04:05Z", "5").expect(t, 67, `"5" is not a duration: write a number and its unit`)
	nearcall(t, "call", address, "greet", `{"nmae": "Ada"}`).expect(t, 67, `Person has no field "nmae"; it has name, age, tags`)
	nearcall(t, "call", "ack", "one").expect(t, 67, `nearcall: INVALID_ARGUMENT: address "ack"`)
	nearcall(t, "schema", "diff", "call_test.go", address).expect(t, 1, "nearcall schema export")
}

// The exit code is 64 + the code of the error, whatever its words.
func TestCallExitCodes(t *testing.T) {
	address := serveDemo(t)
	for _, row := range []struct {
		code int
		args []string
		text string
	}{
		{64 + 5, []string{address, "fail", "5", "nothing there"}, "NOT_FOUND: nothing there"},
		{64 + 9, []string{address, "fail", "9", "x"}, "FAILED_PRECONDITION"},
		{64 + 2, []string{address, "plain_error", "x"}, "UNKNOWN"},
		{64 + 13, []string{address, "panic", "x"}, "INTERNAL"},
		{64 + 3, []string{address, "ack", "three", "4"}, "argument 1 (m)"},
		{64 + 3, []string{address, "ack", "3"}, "argument 2 (n) is missing"},
		{64 + 3, []string{"http://x", "ack"}, "unix, tcp and tls are known"},
		{64 + 4, []string{"--timeout", "50ms", address, "sleep", "5000"}, "DEADLINE_EXCEEDED"},
		{64 + 12, []string{address, "no_such_function"}, "UNIMPLEMENTED"},
		{64 + 14, []string{"unix:/no/such/socket", "ack"}, "is it running"},
		{2, []string{address}, "nearcall call [flags] ADDRESS FUNCTION"},
		{2, []string{"--no-such-flag"}, "unknown flag"},
	} {
		nearcall(t, append([]string{"call"}, row.args...)...).expect(t, row.code, row.text)
	}
}

// TestCallOfAResultWithoutAJSONForm: the function has run, and that is said.
func TestCallOfAResultWithoutAJSONForm(t *testing.T) {
	address := serve(t, func(s *server.Server) { must(t, s.Register("nan", math.NaN)) })
	for _, flag := range []string{"--json", "--timeout=10s"} {
		nearcall(t, "call", flag, address, "nan").expect(t, 64+13, "no JSON form", "result lost")
	}
}

// slowly makes each answer of a server take its time, and returns the address of that.
func slowly(t *testing.T, address string, pause time.Duration) string {
	path := strings.TrimPrefix(address, "unix:")
	listener, err := net.Listen("unix", path+"-slowly")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", path)
			if err != nil {
				caller.Close()
				continue
			}
			go io.Copy(server, caller)
			go func() {
				defer caller.Close()
				answer := make([]byte, 1<<16)
				for {
					n, err := server.Read(answer)
					if err != nil {
						return
					}
					time.Sleep(pause)
					caller.Write(answer[:n])
				}
			}()
		}
	}()
	return address + "-slowly"
}

// Connecting, asking for the description and calling share the time of the call.
func TestCallTimeoutIsForAll(t *testing.T) {
	address := slowly(t, serveDemo(t), 300*time.Millisecond)
	nearcall(t, "call", "--timeout", "20s", address, "ack", "2", "3").expectOut(t, "9\n")
	nearcall(t, "call", "--timeout", "750ms", address, "ack", "2", "3").expect(t, 68, "DEADLINE_EXCEEDED")
}

func TestCallErrorAsJSON(t *testing.T) {
	got := nearcall(t, "call", "--json", serveDemo(t), "fail", "5", "x").expect(t, 69)
	var failure struct {
		Code                   int
		Name, Message, Outcome string
		Details                [][2]any
	}
	must(t, json.Unmarshal([]byte(got.err), &failure))
	if failure.Code != 5 || failure.Name != "NOT_FOUND" || failure.Message != "x" || failure.Outcome != "executed" ||
		len(failure.Details) != 1 || failure.Details[0][0] != "example.Hint" {
		t.Fatalf("got %s", got.err)
	}
}
