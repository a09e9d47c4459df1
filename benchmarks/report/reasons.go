package report

import (
	_ "embed"
	"regexp"

	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/internal/wire"
)

// A reason is why a row of another way may be faster than Nearcall's best of the same work.
type reason struct {
	row        *regexp.Regexp
	bytesLeast int            // of all callers at once
	own        *regexp.Regexp // Nearcall's best beside it; nil: whatever that is
	says       string
}

//go:embed reasons.txt
var reasonsText string

var reasons = readReasons(reasonsText)

func readReasons(text string) (all []reason) {
	for _, p := range paragraphs(text, "row") {
		var r reason
		for _, s := range p {
			switch s.keyword {
			case "row":
				r.row = regexp.MustCompile(s.text)
			case "beyond": // the arena
				r.bytesLeast = wire.SharedMemoryArenaBytes
			case "beside":
				r.own = regexp.MustCompile(s.text)
			case "says":
				r.says = s.text
			}
		}
		all = append(all, r)
	}
	return all
}

// noReason stands where none of the reasons holds: nobody has found one.
const noReason = "No reason is known."

// reasonFor is why a row may be faster than Nearcall's: the first that holds.
func reasonFor(row, own result.Row) string {
	for _, r := range reasons {
		if row.Size*max(row.Callers, 1) >= r.bytesLeast && r.row.MatchString(row.Name) && (r.own == nil || r.own.MatchString(own.Name)) {
			return r.says
		}
	}
	return noReason
}
