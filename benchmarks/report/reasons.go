package report

import (
	"regexp"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// copiesWin is from how many bytes on copying is nearly all of a call.
const copiesWin = 1 << 20

// reasons are why a row of another way may be faster than Nearcall's best of the same
// work. The first that matches stands. A row that none matches says that nobody has
// found the reason.
var reasons = []struct {
	row       *regexp.Regexp
	sizeLeast int
	says      string
}{
	{regexp.MustCompile(`^floor-c-spin$`), 0,
		"A floor does none of the work of a call: no function is looked up, nothing is framed, counted or timed out, and both sides may hold a CPU for ever."},
	{regexp.MustCompile(`^floor-c-cgo$`), 0,
		"A floor does none of the work of a call: an empty function is entered and left; no name is looked up, and no bytes go in or out."},
	{regexp.MustCompile(`^memcpy$`), 0,
		"A floor: one copy by one thread. A call copies its bytes into the memory both share and out again, on the way there and on the way back, and another process has to notice."},
	{regexp.MustCompile(`^floor-(c|go)-socket$`), copiesWin,
		"With a megabyte and more a call is almost only copying, and through shared memory that is as many copies as through a socket, by two threads that share caches; " +
			"the kernel's copies are as good, and a floor does nothing else."},
	{regexp.MustCompile(`^(peer-.*)$`), copiesWin,
		"With a megabyte and more a call is almost only copying, and through shared memory that is as many copies as through a socket, by processes that share caches. " +
			"Who copies less often, or starts to send before all is there, is ahead."},
	{regexp.MustCompile(`^(floor-(c|go)-|transport-(unix|tcp)-|peer-bare-)`), 0,
		"A floor does none of the work of a call: bytes come back as they are; no function is looked up, and nothing has a deadline or an outcome."},
	{regexp.MustCompile(`^web-direct$`), 0,
		"A connection that is handed over needs a wake-up more than a direct one: the front accepts it and reads its first bytes before the server knows of it."},
	{regexp.MustCompile(`^web-nginx-proxy$`), 0,
		"nginx keeps its connections to the server open here, so that the server neither accepts nor closes any; one that is handed over is a new one for it each time. " +
			"On a connection that lives longer the front does nothing any more, while a proxy copies every byte."},
	{regexp.MustCompile(`^run-true`), 0,
		"A floor: it starts a program in C that does nothing. A run by a resident starts the launcher, which has to find the resident and pass it terminal, arguments and signals."},
	{regexp.MustCompile(`^(perl|python)-alone-`), 0,
		"No call at all leaves the language: its own function is an operation of the interpreter, or is written in C as digests are. To call Go pays where Go does more than a call costs."},
	{regexp.MustCompile(`^go-itself-`), 0, "No call at all leaves Go."},
	{regexp.MustCompile(`^cgo-out-`), 0,
		"The other way around: C functions need no runtime, goroutine or stack of Go's, so that Go enters them faster than C enters Go; and where the function takes most of the time, as ack does, C's is faster than Go's."},
	{regexp.MustCompile(`^cgo-(first|later)-`), 0,
		"An empty C function in the same process, as a floor: nothing is waited for. Beside it is a call of another process through shared memory, which waits for a CPU where spinning goroutines hold all."},
	{regexp.MustCompile(`^peer-.*-cold-`), 0,
		"A cold start is starting processes, and a smaller program starts sooner: in C without a runtime, or in Go with less in it. Nearcall's first call looks up the function and makes its shared memory ready for later ones."},
	{regexp.MustCompile(`^peer-(zeromq|nng)-`), 0,
		"Both sides are C, each caller is a process, and bytes travel as they are: no goroutine has to be woken. Beside it are callers in Go."},
}

func reasonFor(row result.Row) string {
	for _, reason := range reasons {
		if row.Size >= reason.sizeLeast && reason.row.MatchString(row.Name) {
			return reason.says
		}
	}
	return ""
}
