package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// works tell apart what rows of a group do, by what these match in their names. Of rows
// that none matches, those are comparable that carry as much.
var works = []*regexp.Regexp{
	regexp.MustCompile(`^(perl|python)-.*-(one|ack|md5)$`),
	regexp.MustCompile(`^(?:c-embed|go-itself|cgo-out)-(one|ack|md5)$`),
	regexp.MustCompile(`^(?:nearcall-.+|go-itself)-app-(.+)$`),
	regexp.MustCompile(`^transport-(?:nearcall-)?(unix|tcp)-`),
	regexp.MustCompile(`^peer-.+-(cold-caller|cold-server)$`),
	regexp.MustCompile(`^run-(cobra|perl|python)`),
	regexp.MustCompile(`^web-.+-(second|kept)$`),
}

// smallMax is the most bytes of what is small.
const smallMax = 64

// workOf names what a row does, so that rows of a group are compared that do the same.
func workOf(row result.Row) string {
	for _, work := range works {
		if parts := work.FindStringSubmatch(row.Name); parts != nil {
			return strings.Join(parts[1:], " ")
		}
	}
	return fmt.Sprint(max(row.Size, smallMax))
}

var peerWayName = regexp.MustCompile(`^peer-(.+?)-(?:\d+-\d+|cold-caller|cold-server|paced)$`)

// workFrom names what a row does and, of peers, the language of its caller.
func (r run) workFrom(row result.Row) string {
	parts := peerWayName.FindStringSubmatch(row.Name)
	if parts == nil {
		return workOf(row)
	}
	language, _, _ := strings.Cut(peerOf(r.Peers, parts[1]).Language, ";")
	return workOf(row) + " from " + language
}

// comparedNS is the median of a call that rows are compared by: that of the rounds, which
// hit rows of a group alike.
func comparedNS(row result.Row) float64 {
	return float64(cmp.Or(row.MedianOfRounds.P50NS, row.P50NS)) / float64(max(row.CallsPerSample, 1))
}

// bestOwn is Nearcall's fastest row of each work, and of each work from each language: who
// writes Go chooses among ways from Go.
func (r run) bestOwn(rows []result.Row) map[string]result.Row {
	best := map[string]result.Row{}
	for _, row := range rows {
		if own, _ := IsOwn(row.Name); !own || row.Failed != "" {
			continue
		}
		for _, work := range []string{workOf(row), r.workFrom(row)} {
			if other, found := best[work]; !found || comparedNS(row) < comparedNS(other) {
				best[work] = row
			}
		}
	}
	return best
}

// A beaten is a row of Nearcall, its fastest of that work, beside one of another way
// whose median is lower.
type beaten struct {
	other, own result.Row
	times      float64 // how often as long Nearcall's takes
}

// leastNS stands for what is too short to be measured.
const leastNS = 0.1

func timesText(times float64) string {
	if times >= 10 {
		return thousands(times)
	}
	return factor(times)
}

// A family is what is slower for one reason.
type family struct {
	Reason string
	number int
	rows   []beaten
}

// fastest is where a row of another way has a lower median than Nearcall's best row of the
// same group and work, peers' from the same language.
type fastest struct {
	Families []*family // by reasons
	Compared int       // rows of others that have such a row beside them
	Beaten   int       // of these, rows with a lower median
}

func (r run) Fastest() (all fastest) {
	for _, group := range r.Groups() {
		best := r.bestOwn(group.Rows)
		for _, row := range group.Rows {
			own, found := best[r.workFrom(row)]
			if !found { // Nearcall was not called from that language
				own, found = best[workOf(row)]
			}
			if isOwn, _ := IsOwn(row.Name); isOwn || !found || row.Failed != "" {
				continue
			}
			all.Compared++
			if comparedNS(row) < comparedNS(own) {
				all.add(reasonFor(row, own), beaten{row, own, comparedNS(own) / max(comparedNS(row), leastNS)})
			}
		}
	}
	return all
}

func (all *fastest) add(reason string, b beaten) {
	all.Beaten++
	at := slices.IndexFunc(all.Families, func(f *family) bool { return f.Reason == reason })
	if at < 0 {
		at = len(all.Families)
		all.Families = append(all.Families, &family{Reason: reason, number: at + 1})
	}
	all.Families[at].rows = append(all.Families[at].rows, b)
}

// Table is what was faster, beside Nearcall's best.
func (f *family) Table() table {
	t := table{id: fmt.Sprintf("slower/%d", f.number), Title: "Faster than Nearcall's best", Head: "faster"}
	for _, head := range []string{"p50", "Nearcall: times as long", "p50", "longer by", "Nearcall's best", "bytes", "callers"} {
		t.Columns = append(t.Columns, column{Head: head})
	}
	for _, b := range f.rows {
		other, own := comparedNS(b.other), comparedNS(b.own)
		t.Lines = append(t.Lines, line{Name: b.other.Name, Cells: []cell{{Here: durationOfEach(other)}, {Here: timesText(b.times)}, {Here: durationOfEach(own)},
			{Here: durationOfEach(own - other)}, {Here: b.own.Name}, {Here: thousands(b.other.Size)}, {Here: thousands(b.other.Callers)}}})
	}
	return t
}

// Summary says what it is, by how much, and why.
func (f *family) Summary() string {
	var names []string
	least, most := f.rows[0].times, f.rows[0].times
	for _, b := range f.rows {
		names = append(names, b.other.Name)
		least, most = min(least, b.times), max(most, b.times)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	const enough = 5 // names say what it is; the page has all
	if len(names) > enough {
		names = append(names[:enough:enough], fmt.Sprintf("%d more", len(names)-enough))
	}
	times := timesText(most)
	if timesText(least) != times {
		times = timesText(least) + " to " + times
	}
	return fmt.Sprintf("%s: Nearcall takes %s times as long. %s", strings.Join(names, ", "), times, f.Reason)
}
