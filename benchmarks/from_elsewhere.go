package main

import (
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
)

var fromElsewherePace = pace{rounds: 7, length: 200 * time.Millisecond, warmUp: 200 * time.Millisecond}

// fromElsewhere is the functions of the published account as fromPerl has them, from
// Python and C, and from Perl on one connection; written in C, called by Go; and as Go
// calls them itself.
func (t tools) fromElsewhere() group {
	rows := []rowPlan{t.itself("called")}
	for _, function := range report.PublishedFunctions {
		rows = append(rows,
			plan("python-alone-"+function, 0, noServer, "", t.pythonCaller("alone-"+function)),
			plan("python-embed-"+function, 0, testLibrary, byItself, t.pythonCaller(function)),
			plan("python-embed-child-"+function, 0, testLibrary, byParent, t.pythonCaller("child-"+function)),
			plan("python-shm-"+function, 0, testServer, byMemory, t.pythonCaller(function)),
			plan("python-socket-"+function, 0, testServer, bySocket, t.pythonCaller(function)),
			plan("python-simple-"+function, 0, testServer, bySimple, t.pythonCaller("kept-"+function)),
			plan("python-simple-reconnect-"+function, 0, testServer, bySimple, t.pythonCaller("simple-"+function)),
			plan("perl-simple-"+function, 0, testServer, bySimple, t.perlCaller("kept-"+function)),
			plan("c-embed-"+function, 0, testLibrary, byItself, t.c(function)),
			plan("cgo-out-"+function, 0, noServer, "", t.cgo("out-"+function)),
			t.itself(function))
	}
	return group{name: "from-elsewhere", rows: rows, onlyFull: &fromElsewherePace}
}

// itself is a row without anything between the caller and the function.
func (t tools) itself(function string) rowPlan {
	row := plan("go-itself-"+function, 0, noServer, "", t.golang("itself-"+function))
	row.arguments = []string{"1"}
	return row
}
