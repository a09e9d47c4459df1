package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/chart"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// peersPrefix begins the names of groups in which peers take turns with Nearcall.
const peersPrefix = "peers-"

var peerName = regexp.MustCompile(`^peer-(.+)-(\d+)-(\d+)$`)

// ownWords are the parts of the names of Nearcall's own rows.
var ownWords = map[string]string{"nearcall": "Nearcall", "go": "Go", "c": "C", "perl": "Perl", "python": "Python", "shm": "shared memory", "each": "a client each"}

// wayLabel is a way as tables and charts have it.
func wayLabel(way string) string {
	if way == "bare" {
		return "bare socket"
	}
	if !strings.HasPrefix(way, "nearcall-") {
		return way
	}
	words := strings.Split(way, "-")
	for i, word := range words {
		if label := ownWords[word]; label != "" {
			words[i] = label
		}
	}
	return strings.Join(words, ", ")
}

// A peerRow is a row by what takes part in it.
type peerRow struct {
	way           string // as a result names it
	size, callers int
	row           result.Row
}

// peersView is what the page shows of peers.
type peersView struct {
	Tables []section // one for each size
	Charts []figure
	Others []section // groups that are not by size and callers
	Setup  []result.Peer
	// Differences are what is not the same for all.
	Differences []string
}

// Measured reports whether there is any row of a peer.
func (v peersView) Measured() bool { return len(v.Tables)+len(v.Others) > 0 }

func peersOf(r *result.Result) peersView {
	v := peersView{Setup: r.Peers, Differences: peerDifferences}
	var rows []peerRow
	for _, group := range groupsOf(r) {
		if !strings.HasPrefix(group.Name, peersPrefix) {
			continue
		}
		of, ok := peerRows(group.Rows)
		if !ok {
			v.Others = append(v.Others, section{table: rowsTable(group.Name, group.Rows), ID: "rows-of-" + group.Name, Class: "rows"})
			continue
		}
		rows = append(rows, of...)
	}
	f := figuresOf(r)
	for _, size := range valuesOf(rows, func(p peerRow) int { return p.size }) {
		v.Tables = append(v.Tables, section{table: peersTable(f, r.Peers, rows, size), ID: fmt.Sprintf("peers-%d", size)})
	}
	v.Charts = peersCharts(rows)
	return v
}

// peerRows reads the rows of a group; false where one is not by size and callers.
func peerRows(rows []result.Row) ([]peerRow, bool) {
	var all []peerRow
	for _, row := range rows {
		parts := peerName.FindStringSubmatch(row.Name)
		if parts == nil {
			return nil, false
		}
		size, sizeErr := strconv.Atoi(parts[2])
		callers, callersErr := strconv.Atoi(parts[3])
		if sizeErr != nil || callersErr != nil {
			return nil, false
		}
		all = append(all, peerRow{parts[1], size, callers, row})
	}
	return all, true
}

// valuesOf returns what rows differ in, in ascending order.
func valuesOf(rows []peerRow, of func(peerRow) int) []int {
	var all []int
	for _, row := range rows {
		all = append(all, of(row))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// waysIn returns the ways in their order.
func waysIn(rows []peerRow) []string {
	var all []string
	for _, row := range rows {
		if !slices.Contains(all, row.way) {
			all = append(all, row.way)
		}
	}
	return all
}

// peerOf is what was told of a way; nothing where it was not described.
func peerOf(peers []result.Peer, way string) result.Peer {
	if i := slices.IndexFunc(peers, func(p result.Peer) bool { return p.Name == way }); i >= 0 {
		return peers[i]
	}
	return result.Peer{}
}

// peersTable is p50, p99, rate and CPU of each way for a size, by callers. Language and
// connections stand under the name, where a phone shows them too.
func peersTable(f figures, peers []result.Peer, rows []peerRow, size int) table {
	t := table{Title: "Requests and replies of " + chart.Bytes(float64(size)), Head: []string{"way, its language, its connections"}}
	callers := valuesOf(rows, func(p peerRow) int { return p.callers })
	for _, count := range callers {
		who := fmt.Sprintf("%d callers", count)
		if count == 1 {
			who = "1 caller"
		}
		t.Head = append(t.Head, who+": p50", "p99", "calls/s", "CPU us a call")
	}
	for _, way := range waysIn(rows) {
		told := peerOf(peers, way)
		l := line{Name: wayLabel(way), Under: strings.Trim(told.Language+"; "+told.Connections, "; ")}
		for _, count := range callers {
			l.Cells = append(l.Cells, peerCells(f, way, size, count)...)
		}
		t.Lines = append(t.Lines, l)
	}
	return t
}

func peerCells(f figures, way string, size, callers int) []cell {
	return f.cells(fmt.Sprintf("peer-%s-%d-%d", way, size, callers), medianOf, slowestOf, perSecond, bothCPU)
}

// peerLeftOut is what a row is left out as where it is one of a peer's: its group and its
// way; "" for other rows.
func peerLeftOut(row string) string {
	parts := peerName.FindStringSubmatch(row)
	if parts == nil {
		return ""
	}
	return fmt.Sprintf("%s%s-%s, %s", peersPrefix, parts[2], parts[3], parts[1])
}

// peersCharts are the cost against size, and the throughput against callers.
func peersCharts(rows []peerRow) []figure {
	var all nonEmptyCharts
	for _, c := range []struct {
		says string
		x, y axis
		with func(peerRow) bool
	}{
		{"Peers: cost by the size of the payload, one caller", bySize, showsP50, func(p peerRow) bool { return p.callers == 1 }},
		{"Peers: throughput by callers, 64 bytes", byCallers, showsRate, func(p peerRow) bool { return p.size == 64 }},
	} {
		var of []result.Row
		var named []series
		for _, p := range rows {
			if c.with(p) {
				p.row.Name = wayLabel(p.way)
				of = append(of, p.row)
			}
		}
		for _, way := range waysIn(rows) {
			named = append(named, seriesOf(wayLabel(way), regexp.QuoteMeta(wayLabel(way))))
		}
		all.add(lines(of, c.says, c.x, c.y, named))
	}
	return all
}
