package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// races is a result of two groups in which others win and lose.
func races() *result.Result {
	return &result.Result{Schema: result.Schema, Rows: []result.Row{
		measuredRow("small", "floor-c-spin", 64, 1, 100),
		measuredRow("small", "nearcall-c-shm", 64, 1, 310),
		measuredRow("small", "nearcall-c-socket", 64, 1, 9_000),
		measuredRow("small", "floor-go-socket", 64, 1, 5_000), // slower than the best
		measuredRow("small", "floor-c-socket", 1<<20, 1, 50),  // another work
		{Name: "floor-c-cgo", Group: "small", Size: 64, Failed: "it died"},
		measuredRow("peers-64-1", "peer-nearcall-go-shm-64-1", 64, 1, 2_000),
		measuredRow("peers-64-1", "peer-netrpc-64-1", 64, 1, 1_000),
		measuredRow("peers-64-1", "peer-grpc-64-1", 64, 1, 2_000), // as fast
		measuredRow("alone", "floor-go-socket", 64, 1, 1),         // beside nothing
		measuredRow("from-perl", "perl-alone-md5", 0, 1, 200),
		measuredRow("from-perl", "perl-embed-md5", 0, 1, 300),
		measuredRow("from-perl", "perl-embed-one", 0, 1, 100), // another function
	}}
}

// slower is the part of a result's page that says where Nearcall is not the fastest.
func slower(t *testing.T, r *result.Result) string {
	t.Helper()
	_, page := written(t, r)
	_, page, _ = strings.Cut(page, `<h2 id="slower">`)
	page, _, _ = strings.Cut(page, "<h2")
	return page
}

func TestPageSaysWhereNearcallIsNotTheFastest(t *testing.T) {
	page := slower(t, races())
	wantIn(t, page,
		"Of the rows of other ways, floors among them, 5 stand beside Nearcall's best row of their group", "both sides hold a CPU for ever", "No reason is known.",
		">floor-c-spin</th>", ">0.31 us<", ">0.21 us<", ">3.10<", ">peer-netrpc-64-1</th>", ">2.00<", ">perl-alone-md5</th>", ">perl-embed-md5<", ">1.50<")
	wantNotIn(t, page, "floor-go-socket", "floor-c-socket", "grpc", "floor-c-cgo", "perl-embed-one")
	wantIn(t, shown(t, report.Measured, races()),
		"\n5 rows are of other ways, floors among them,", "lower than that of Nearcall's best in 3:\n",
		"* peer-netrpc-64-1: Nearcall takes 2.00 times as long. No reason is known.")
}

// Who writes Go does not choose Nearcall from C; what Nearcall was not called from stands
// beside its best of all.
func TestPeersStandBesideNearcallFromTheirLanguage(t *testing.T) {
	r := &result.Result{Schema: result.Schema,
		Peers: []result.Peer{{Name: "grpc", Language: "Go"}, {Name: "nng", Language: "C"}, {Name: "other", Language: "Rust"},
			{Name: "nearcall-go", Language: "Go"}, {Name: "nearcall-c", Language: "C; server Go"}},
		Rows: []result.Row{
			measuredRow("peers-cold", "peer-nearcall-go-cold-server", 64, 1, 7_000),
			measuredRow("peers-cold", "peer-nearcall-c-cold-server", 64, 1, 5_000),
			measuredRow("peers-cold", "peer-grpc-cold-server", 64, 1, 6_000),
			measuredRow("peers-cold", "peer-nng-cold-server", 64, 1, 6_000),
			measuredRow("peers-cold", "peer-other-cold-server", 64, 1, 6_000),
		}}
	page := slower(t, r)
	wantIn(t, page, ">peer-grpc-cold-server</th>")
	wantNotIn(t, page, "peer-nng-", "peer-other-")
}

// What many send at once may be too much for shared memory where one call is not.
func TestReasonsLookAtAllCallersTogether(t *testing.T) {
	r := &result.Result{Schema: result.Schema}
	for _, callers := range []int{1, 16} {
		for i, name := range []string{"peer-bare", "peer-nearcall-go-shm"} {
			r.Rows = append(r.Rows, measuredRow(fmt.Sprintf("peers-1048576-%d", callers), fmt.Sprintf("%s-1048576-%d", name, callers), 1<<20, callers, int64(1000*(i+1))))
		}
	}
	page := slower(t, r)
	for _, want := range []string{"does not fit the one arena", "bytes come back as they are"} {
		if strings.Count(page, want) != 1 {
			t.Errorf("%q is not in the page once", want)
		}
	}
}

// A reason tells of both rows: beside another of Nearcall's it would be false.
func TestReasonsLookAtNearcallsRowToo(t *testing.T) {
	for _, test := range []struct {
		other, own, want string
		size             int
	}{
		{"peer-drpc", "peer-nearcall-go-shm", "does not fit the one arena", 1 << 20},
		{"peer-drpc", "peer-nearcall-go-socket-typed", "does not fit the one arena", 1 << 20},
		{"peer-drpc", "peer-nearcall-go-shm-each", "No reason is known.", 1 << 20},
		{"peer-drpc", "peer-nearcall-c-shm", "No reason is known.", 1 << 20},
		{"peer-drpc", "peer-nearcall-python-shm", "No reason is known.", 1 << 20},
		{"peer-grpc", "peer-nearcall-go-shm", "No reason is known.", 1 << 20}, // its callers share one, too
		{"peer-bare", "peer-nearcall-go-shm-each", "bytes come back as they are", 1 << 20},
		{"peer-zeromq", "peer-nearcall-go-socket", "calls from Go", 64},
		{"peer-zeromq", "peer-nearcall-c-socket", "No reason is known.", 64},
		{"peer-nng", "peer-nearcall-python-shm", "No reason is known.", 64},
	} {
		suffix := fmt.Sprintf("-%d-16", test.size)
		wantIn(t, slower(t, &result.Result{Schema: result.Schema, Rows: []result.Row{
			measuredRow("peers"+suffix, test.other+suffix, test.size, 16, 1_000), measuredRow("peers"+suffix, test.own+suffix, test.size, 16, 2_000),
		}}), test.want)
	}
}

// Rows that are compared through memory have to be compared by what their rounds were.
func TestFastestIsJudgedByTheRoundsMedians(t *testing.T) {
	r := races()
	spin := rowOf(r, "floor-c-spin")
	spin.MedianOfRounds.P50NS = 400
	wantNotIn(t, slower(t, r), "both sides hold a CPU for ever")
}

// A sample may be of many calls.
func TestFastestIsJudgedByOneCall(t *testing.T) {
	r := races()
	for name, ns := range map[string]int64{"perl-alone-md5": 200_000, "peer-netrpc-64-1": 3_000_000} {
		row := rowOf(r, name)
		row.P50NS, row.CallsPerSample = ns, 1_000
	}
	page := slower(t, r)
	wantIn(t, page, ">1.50<")
	wantNotIn(t, page, "peer-netrpc")
}
