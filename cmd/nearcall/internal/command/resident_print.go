package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/nearcall/nearcall/resident/inspect"
)

func (p *program) printResidents(found []residency) error {
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	isElsewhere := func(r residency) bool { return r.place.Directory != "" }
	more := ""
	if slices.ContainsFunc(found, isElsewhere) {
		more = "\tDIRECTORY"
	}
	fmt.Fprintln(table, "NAME\tSTATE\tPID\tMODE\tRUNS\tRUNNING\tPROGRAM"+more)
	for _, r := range found {
		if isElsewhere(r) {
			more = "\t" + r.place.Directory
		} else {
			more = ""
		}
		if r.report == nil {
			fmt.Fprintf(table, "%s\t%s\t-\t-\t-\t-\t%s%s\n", r.place.Name, r.state, cmp.Or(printable(r.program), "-"), more)
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%d\t%d\t%s%s\n", r.place.Name, r.state, r.report.ProcessID, r.report.Mode, r.report.Runs, r.report.Running, filepath.Clean(r.report.Program), more)
	}
	return table.Flush()
}

func (p *program) printStatus(r residency) error {
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s\t%s\n", styleFor(p.out).bold(r.place.Name), r.state)
	if r.report != nil {
		printReport(table, r.report)
	}
	if r.problem != nil {
		fmt.Fprintf(table, "  problem\t%v\n", r.problem)
	}
	if r.program != "" {
		fmt.Fprintf(table, "  program\t%s\n", printable(r.program))
	}
	if r.failedStarts > 0 {
		fmt.Fprintf(table, "  failed starts\t%d\n", r.failedStarts)
		fmt.Fprintf(table, "  next\tmend it, then 'nearcall resident stop %s'\n", r.place.Name)
	}
	if !r.plainlyUntil.IsZero() {
		fmt.Fprintf(table, "  run plainly until\t%s\n", r.plainlyUntil.Format(time.DateTime))
	}
	fmt.Fprintf(table, "  socket\t%s\n", r.place.Socket)
	fmt.Fprintf(table, "  log\t%s\n", r.place.Log)
	return table.Flush()
}

// printable keeps a path from being anything else to a terminal or a table.
func printable(path string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, path)
}

func printReport(out io.Writer, report *inspect.Report) {
	idle := "never"
	if report.Idle >= 0 {
		idle = "idle for " + report.Idle.String()
	}
	fmt.Fprintf(out, "  program\t%s\n", filepath.Clean(report.Program))
	fmt.Fprintf(out, "  process\t%d\n", report.ProcessID)
	fmt.Fprintf(out, "  mode\t%s\n", report.Mode)
	fmt.Fprintf(out, "  since\t%s\n", report.Started.Format(time.DateTime))
	fmt.Fprintf(out, "  leaves\t%s\n", idle)
	fmt.Fprintf(out, "  runs\t%d ended, %d running\n", report.Runs, report.Running)
	fmt.Fprintf(out, "  waiting\t%d processes\n", report.Waiting)
	printReads(out, report)
}

// printReads tells for whom it is.
func printReads(out io.Writer, report *inspect.Report) {
	if len(report.Reads) > 0 {
		fmt.Fprintf(out, "  has read\t%s\n", printable(strings.Join(report.Reads, " ")))
	}
	if report.ReadsDirectory != "" {
		fmt.Fprintf(out, "  runs in\t%s\n", printable(report.ReadsDirectory))
	}
	if report.ReadsInput {
		fmt.Fprintf(out, "  input\t/dev/null alone\n")
	}
}

// printResidencies prints them with the reports as they came.
func (p *program) printResidencies(found []residency) error {
	type object struct {
		Name         string          `json:"name"`
		Identity     string          `json:"identity"`
		State        string          `json:"state"`
		Socket       string          `json:"socket"`
		Log          string          `json:"log"`
		FailedStarts int             `json:"failed_starts"`
		Program      string          `json:"program,omitempty"` // of one without a report
		Problem      string          `json:"problem,omitempty"`
		Report       json.RawMessage `json:"report,omitempty"`
	}
	objects := []object{}
	for _, r := range found {
		o := object{Name: r.place.Name, Identity: r.place.Identity, State: r.state, Socket: r.place.Socket, Log: r.place.Log, FailedStarts: r.failedStarts, Program: r.program}
		if r.report != nil {
			o.Report = r.report.Text
		}
		if r.problem != nil {
			o.Problem = r.problem.Error()
		}
		objects = append(objects, o)
	}
	return p.printIndented(objects)
}
