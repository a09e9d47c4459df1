package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// ownRows are Nearcall's among all; otherRows those of others, floors among them. The
// names of a run's rows are of one kind or the other.
var (
	ownRows = regexp.MustCompile(`^(nearcall-|peer-nearcall-|(perl|python|c)-(embed|shm|socket|simple|reconnect)-|web-handed-over(-second|-kept)?$|run-.*-resident|resident-|` +
		`shm-call-|transport-nearcall-|many-|oneshot-|persistent-|simple-json|beside-idle-)`)
	otherRows = regexp.MustCompile(`^(floor-|memcpy$|peer-|web-|run-|(perl|python)-alone-|go-itself-|cgo-|transport-)`)
)

// IsOwn reports whether a row is of Nearcall; known is false for a name that is neither
// of Nearcall nor of another way.
func IsOwn(row string) (own, known bool) {
	own = ownRows.MatchString(row)
	return own, own || otherRows.MatchString(row)
}

// works tell apart what rows of a group do, by what these match in their names. Of rows
// that none matches, those are comparable that carry as much.
var works = []*regexp.Regexp{
	regexp.MustCompile(`^(perl|python)-.*-(one|ack|md5)$`),
	regexp.MustCompile(`^(?:c-embed|go-itself|cgo-out)-(one|ack|md5)$`),
	regexp.MustCompile(`^transport-(?:nearcall-)?(unix|tcp)-`),
	regexp.MustCompile(`^peer-.+-(cold-caller|cold-server)$`),
	regexp.MustCompile(`^run-(cobra|perl|python)`),
	regexp.MustCompile(`^web-.+-(second|kept)$`),
}

// workOf names what a row does, so that rows of a group are compared that do the same.
func workOf(row result.Row) string {
	for _, work := range works {
		if parts := work.FindStringSubmatch(row.Name); parts != nil {
			return strings.Join(parts[1:], " ")
		}
	}
	return fmt.Sprint(max(row.Size, smallMax))
}

// A beaten is a row of Nearcall, its fastest of that work, beside one of another way
// whose median is lower.
type beaten struct {
	Other, Own result.Row
	Times      float64 // how often as long Nearcall's takes
}

// comparedNS is the median of a call that rows are compared by: that of the rounds, which
// hit rows of a group alike.
func comparedNS(row result.Row) float64 {
	return float64(cmp.Or(row.MedianOfRounds.P50NS, row.P50NS)) / float64(max(row.CallsPerSample, 1))
}

// TimesText writes how often.
func (b beaten) TimesText() string { return timesText(b.Times) }

func timesText(times float64) string {
	if times >= 10 {
		return thousands(times)
	}
	return fmt.Sprintf("%.2f", times)
}

// OtherText and OwnText are both medians.
func (b beaten) OtherText() string { return durationOfEach(comparedNS(b.Other)) }
func (b beaten) OwnText() string   { return durationOfEach(comparedNS(b.Own)) }

// MoreText is how much longer Nearcall's takes.
func (b beaten) MoreText() string { return durationOfEach(comparedNS(b.Own) - comparedNS(b.Other)) }

// leastNS stands for what is too short to be measured.
const leastNS = 0.1

// A beatenFamily is what is slower for one reason.
type beatenFamily struct {
	Reason string // "" where nobody has found one
	Rows   []beaten
	Table  section
}

// rowsOf is how many there are in all families.
func rowsOf(families []beatenFamily) int {
	rows := 0
	for _, family := range families {
		rows += len(family.Rows)
	}
	return rows
}

// notFastest returns where a row of another way has a lower median than Nearcall's best
// row of the same group and work, peers' from the same language, by reasons; and how many rows of others there are that
// have such a row beside them.
func notFastest(r *result.Result) (families []beatenFamily, compared int) {
	at := map[string]int{}
	for _, group := range groupsOf(r) {
		best := bestOwn(group.Rows, r.Peers)
		for _, row := range group.Rows {
			own, found := best.beside(row)
			if isOwn, _ := IsOwn(row.Name); isOwn || !found || row.Failed != "" {
				continue
			}
			compared++
			if comparedNS(row) >= comparedNS(own) {
				continue
			}
			reason := reasonFor(row, own)
			if _, known := at[reason]; !known {
				at[reason] = len(families)
				families = append(families, beatenFamily{Reason: reason})
			}
			family := &families[at[reason]]
			family.Rows = append(family.Rows, beaten{row, own, comparedNS(own) / max(comparedNS(row), leastNS)})
		}
	}
	for i := range families {
		families[i].Table = section{table: families[i].table(), ID: fmt.Sprintf("slower-%d", i+1)}
	}
	return families, compared
}

// best is Nearcall's fastest row of each work, and of each work from each language: who
// writes Go chooses among ways from Go.
type best struct {
	rows  map[string]result.Row
	peers []result.Peer
}

func bestOwn(rows []result.Row, peers []result.Peer) best {
	b := best{map[string]result.Row{}, peers}
	for _, row := range rows {
		if own, _ := IsOwn(row.Name); !own || row.Failed != "" {
			continue
		}
		for _, work := range []string{workOf(row), b.workFrom(row)} {
			if other, found := b.rows[work]; !found || comparedNS(row) < comparedNS(other) {
				b.rows[work] = row
			}
		}
	}
	return b
}

// beside is what a row of another way is compared with; where Nearcall was not called
// from its language, with any.
func (b best) beside(row result.Row) (result.Row, bool) {
	if own, found := b.rows[b.workFrom(row)]; found {
		return own, true
	}
	own, found := b.rows[workOf(row)]
	return own, found
}

var peerWay = regexp.MustCompile(`^peer-(.+?)-(?:\d+-\d+|cold-caller|cold-server|paced)$`)

// workFrom names what a row does and, of peers, the language of its caller.
func (b best) workFrom(row result.Row) string {
	parts := peerWay.FindStringSubmatch(row.Name)
	if parts == nil {
		return workOf(row)
	}
	language, _, _ := strings.Cut(peerOf(b.peers, parts[1]).Language, ";")
	return workOf(row) + " from " + language
}

func (f beatenFamily) table() table {
	t := table{Title: "Faster than Nearcall's best", Head: []string{"faster", "p50", "Nearcall: times as long", "p50", "longer by", "Nearcall's best", "bytes", "callers"}}
	for _, b := range f.Rows {
		t.Lines = append(t.Lines, line{Name: b.Other.Name, Cells: []cell{{Here: b.OtherText()}, {Here: b.TimesText()}, {Here: b.OwnText()}, {Here: b.MoreText()},
			{Here: b.Own.Name}, {Here: thousands(float64(b.Other.Size))}, {Here: thousands(float64(b.Other.Callers))}}})
	}
	return t
}

// Summary says what it is and by how much, in one sentence.
func (f beatenFamily) Summary() string {
	var names []string
	least, most := f.Rows[0].Times, f.Rows[0].Times
	for _, b := range f.Rows {
		names = append(names, b.Other.Name)
		least, most = min(least, b.Times), max(most, b.Times)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	const most5 = 5 // names say what it is; the page has all
	if len(names) > most5 {
		names = append(names[:most5:most5], fmt.Sprintf("%d more", len(names)-most5))
	}
	times := timesText(most)
	if timesText(least) != times {
		times = timesText(least) + " to " + times
	}
	return fmt.Sprintf("%s: Nearcall takes %s times as long", strings.Join(names, ", "), times)
}

// noReason stands where none is kept.
const noReason = "No reason is known."

// ReasonText is the reason, or that there is none.
func (f beatenFamily) ReasonText() string { return cmp.Or(f.Reason, noReason) }

const notFastestTitle = "Where Nearcall is not the fastest"
