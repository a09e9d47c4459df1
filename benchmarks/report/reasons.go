package report

import (
	"regexp"

	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/internal/wire"
)

// reasons are why a row of another way may be faster than Nearcall's best of the same
// work. The first that matches stands. A row that none matches says that nobody has
// found the reason.
var reasons = []struct {
	row        *regexp.Regexp
	bytesLeast int // of all callers at once
	says       string
	own        *regexp.Regexp // Nearcall's best beside it; nil: whatever that is
}{
	{regexp.MustCompile(`^floor-c-spin`), 0,
		"A floor does none of the work of a call: no function is looked up, nothing is framed, counted or timed out, and both sides hold a CPU for ever.", nil},
	{regexp.MustCompile(`^floor-c-cgo$`), 0,
		"A floor does none of the work of a call: an empty function is entered and left; no name is looked up, and no bytes go in or out.", nil},
	{regexp.MustCompile(`^memcpy$`), 0,
		"A floor: one copy by one thread. A call copies its bytes into the memory both share and out again, on the way there and on the way back, and another process has to notice.", nil},
	{regexp.MustCompile(`^floor-(c|go)-socket$`), wire.SharedMemoryArenaBytes,
		"What does not fit the arena of shared memory goes by the socket, where copying is nearly all of it; and a floor does nothing else. A program that often sends so much can have a larger arena.", nil},
	{regexp.MustCompile(`^peer-(bare|drpc|thrift|zeromq|nng|msgpack-rpc)-`), wire.SharedMemoryArenaBytes,
		"What callers that share a client send at once does not fit the one arena of shared memory here, and what is over goes by their one socket. Callers of the others have a connection each.",
		regexp.MustCompile(`^peer-nearcall-go-(shm|socket)(-typed)?-\d`)},
	{regexp.MustCompile(`^floor-web-`), 0,
		"A floor does none of the work: it looks neither at the request nor where it is to go, nobody says that a connection has arrived, and what serves it is no web server.", nil},
	{regexp.MustCompile(`^web-direct-(second|kept)$`), 0,
		"The same request to the same server: nobody is in between, and what there is of a difference is the machine's, or that the server had the connection from elsewhere.", nil},
	{regexp.MustCompile(`^(floor-(c|go)-|transport-(unix|tcp)-|peer-bare-)`), 0,
		"A floor does none of the work of a call: bytes come back as they are; no function is looked up, and nothing has a deadline or an outcome.", nil},
	{regexp.MustCompile(`^web-direct$`), 0,
		"A connection that is handed over needs a wake-up more than a direct one: the front accepts it and reads its first bytes before the server knows of it.", nil},
	{regexp.MustCompile(`^web-nginx-proxy$`), 0,
		"nginx keeps its connections to the server open here, so that the server neither accepts nor closes any; one that is handed over is a new one for it each time. " +
			"On a connection that lives longer the front does nothing any more, while a proxy copies every byte.", nil},
	{regexp.MustCompile(`^run-true`), 0,
		"A floor: it starts a program in C that does nothing. A run by a resident starts the launcher, which has to find the resident and pass it terminal, arguments and signals.", nil},
	{regexp.MustCompile(`^(perl|python)-alone-`), 0,
		"No call at all leaves the language: its own function is an operation of the interpreter, or is written in C as digests are. To call Go pays where Go does more than a call costs.", nil},
	{regexp.MustCompile(`^go-itself-`), 0, "No call at all leaves Go.", nil},
	{regexp.MustCompile(`^cgo-out-`), 0,
		"The other way around: C functions need no runtime, goroutine or stack of Go's, so that Go enters them faster than C enters Go; and where the function takes most of the time, as ack does, C's is faster than Go's.", nil},
	{regexp.MustCompile(`^cgo-(first|later)-`), 0,
		"An empty C function in the same process, as a floor: nothing is waited for. Beside it is a call of another process through shared memory, which waits for a CPU where spinning goroutines hold all.", nil},
	{regexp.MustCompile(`^peer-.*-cold-`), 0,
		"A cold start is mostly that of processes, and those in C start no runtime. Nearcall's server also locks the place of its socket and describes all functions of the demonstration, and its caller says hello before the first call.", nil},
	{regexp.MustCompile(`^peer-(zeromq|nng)-`), 0,
		"Both sides are C, each caller is a process, and bytes travel as they are: no goroutine has to be woken. Nearcall's best beside it calls from Go.",
		regexp.MustCompile(`^peer-nearcall-go-`)},
}

// reasonFor is why a row may be faster than Nearcall's; "" where nobody knows.
func reasonFor(row, own result.Row) string {
	for _, reason := range reasons {
		if row.Size*max(row.Callers, 1) >= reason.bytesLeast && reason.row.MatchString(row.Name) &&
			(reason.own == nil || reason.own.MatchString(own.Name)) {
			return reason.says
		}
	}
	return ""
}
