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

var (
	peerName  = regexp.MustCompile(`^peer-(.+)-(\d+)-(\d+)$`)
	ownInPeer = map[string]string{"nearcall-go-shm": "Nearcall, shared memory", "nearcall-go-socket": "Nearcall, socket"}
)

// A peerRow is a row by what takes part in it.
type peerRow struct {
	way           string
	size, callers int
	row           result.Row
}

// peersView is what the page shows of peers.
type peersView struct {
	Tables []section // one for each size
	Charts []chart.Chart
	Others []groupOf // groups that are not by size and callers
	Peers  []result.Peer
}

// Measured reports whether there is any row of a peer.
func (v peersView) Measured() bool { return len(v.Tables)+len(v.Others) > 0 }

func peersOf(r *result.Result) peersView {
	v := peersView{Peers: r.Peers}
	var rows []peerRow
	for _, group := range groupsOf(r) {
		if !strings.HasPrefix(group.Name, peersPrefix) {
			continue
		}
		of, ok := peerRows(group.Rows)
		if !ok {
			v.Others = append(v.Others, group)
			continue
		}
		rows = append(rows, of...)
	}
	for _, size := range valuesOf(rows, func(p peerRow) int { return p.size }) {
		v.Tables = append(v.Tables, section{table: peersTable(rows, size), ID: fmt.Sprintf("peers-%d", size)})
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
		way := parts[1]
		if says := ownInPeer[way]; says != "" {
			way = says
		}
		all = append(all, peerRow{way, size, callers, row})
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

// peersTable is p50, p99, rate and CPU of each way for a size, by callers.
func peersTable(rows []peerRow, size int) table {
	t := table{Title: "Requests and replies of " + chart.Bytes(float64(size)), Head: []string{"way"}}
	callers := valuesOf(rows, func(p peerRow) int { return p.callers })
	for _, count := range callers {
		who := fmt.Sprintf("%d callers", count)
		if count == 1 {
			who = "1 caller"
		}
		t.Head = append(t.Head, who+", p50", "p99", "calls/s", "CPU us per call")
	}
	for _, way := range waysIn(rows) {
		l := line{Name: way}
		for _, count := range callers {
			l.Cells = append(l.Cells, peerCells(rows, way, size, count)...)
		}
		t.Lines = append(t.Lines, l)
	}
	return t
}

func peerCells(rows []peerRow, way string, size, callers int) []cell {
	for _, p := range rows {
		if p.way != way || p.size != size || p.callers != callers {
			continue
		}
		if p.row.Failed != "" {
			return slices.Repeat([]cell{{Missing: true, Why: p.row.Failed}}, 4)
		}
		return []cell{{Here: duration(p.row.P50NS)}, {Here: duration(p.row.P99NS)}, {Here: thousands(p.row.PerS)},
			{Here: bothCPU(p.row)}}
	}
	return slices.Repeat([]cell{{Missing: true}}, 4)
}

// peersCharts are the cost against size, and the throughput against callers.
func peersCharts(rows []peerRow) []chart.Chart {
	var all kept
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
				p.row.Name = p.way
				of = append(of, p.row)
			}
		}
		for _, way := range waysIn(rows) {
			named = append(named, seriesOf(way, regexp.QuoteMeta(way)))
		}
		all.add(lines(of, c.says, c.x, c.y, named))
	}
	return all
}
