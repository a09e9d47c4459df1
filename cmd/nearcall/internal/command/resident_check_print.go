package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/residentcheck"
)

// printCheck says first whether it is the same, and then for whom and why.
func (p *program) printCheck(report *residentcheck.Report, k kept) error {
	mark := styleFor(p.out)
	var text strings.Builder
	fmt.Fprintln(&text, mark.bold(strings.Join(append([]string{report.Program}, report.Arguments...), " ")))
	for _, run := range report.Runs {
		fmt.Fprintf(&text, "  %-40s %5d ms  %s\n", run.Name, run.Milliseconds, endOf(run))
	}
	if report.Same {
		fmt.Fprintf(&text, "Same: output, errors, how it ends%s.\n", filesOf(report))
	}
	for _, d := range report.Differences {
		printDifference(&text, mark, d)
	}
	for _, advice := range adviceFor(report.Differences) {
		fmt.Fprintln(&text, advice)
	}
	printList(&text, "Differs by itself, and is not compared", report.Varies)
	if report.Unchecked != "" {
		fmt.Fprintf(&text, "Not compared: %s\n", report.Unchecked)
	}
	printList(&text, "Read before the run, so that only callers with the same have this resident", readBefore(report.Reads))
	printTouched(&text, report, k)
	_, err := io.WriteString(p.out, text.String())
	return err
}

func endOf(run *residentcheck.Run) string {
	end := fmt.Sprintf("exit code %d", run.ExitCode)
	if run.Signal != "" {
		end = "signal: " + run.Signal
	}
	if run.Plainly != "" {
		end += "; plain: " + run.Plainly
	}
	return end
}

func filesOf(report *residentcheck.Report) string {
	switch len(report.Files) {
	case 0:
		return ", no files"
	case 1:
		return ", 1 file"
	}
	return fmt.Sprintf(", %d files", len(report.Files))
}

func printDifference(out io.Writer, mark style, d residentcheck.Difference) {
	what := map[string]string{"output": "output, line " + d.Where, "errors": "errors, line " + d.Where, "file": "the file " + printable(d.Where), "end": "how it ends"}[d.What]
	fmt.Fprintf(out, "%s in the run %q: %s\n", mark.red("Different"), d.Run, what)
	fmt.Fprintf(out, "    plainly  %s\n    here     %s\n", oneLine(d.Plain), oneLine(d.Got))
	if d.NumbersAlone {
		fmt.Fprintln(out, "    Only numbers differ: if they are times, --ignore names the line.")
	}
}

// adviceFor names the next step, once for each kind of difference.
func adviceFor(differences []residentcheck.Difference) (all []string) {
	const (
		stale = "That caller had another directory, HOME, standard input and other variables, and the program has made something of them before its\n" +
			"runs where nobody saw it. Do that in the run, or say what is read: same_directory, early_input, environment."
		state = "What the program does before its runs is done once, with --nearcall-resident as its only argument and /dev/null as its input."
	)
	for _, d := range differences {
		advice := state
		if d.IsStale() {
			advice = stale
		}
		if !slices.Contains(all, advice) {
			all = append(all, advice)
		}
	}
	return all
}

// shownMax is how much of a line is worth showing.
const shownMax = 200

func oneLine(text string) string {
	text = printable(strings.TrimSuffix(text, "\n"))
	if len(text) > shownMax {
		text = strings.ToValidUTF8(text[:shownMax], "") + " ..."
	}
	return text
}

func printList(out io.Writer, title string, all []string) {
	if len(all) > 0 {
		fmt.Fprintf(out, "%s: %s\n", title, printable(strings.Join(all, "; ")))
	}
}

func readBefore(reads residentcheck.Reads) (all []string) {
	for _, name := range reads.Variables {
		if name == "*" {
			name = "all variables"
		}
		all = append(all, name)
	}
	if len(all) > 0 {
		all = []string{strings.Join(all, " ")}
	}
	if reads.Directory {
		all = append(all, "the directory")
	}
	if reads.Input {
		all = append(all, "standard input")
	}
	return all
}
