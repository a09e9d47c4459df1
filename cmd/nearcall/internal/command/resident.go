package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/resident/inspect"
)

// States of a program of which there are files in the directory.
const (
	stateRunning = "running"
	stateLeaving = "leaving"
	stateSilent  = "silent"  // it listens and gives no report
	stateFailing = "failing" // its last starts came to nothing
	stateGone    = "gone"
)

// A residency is what is known of one version of a program.
type residency struct {
	place        inspect.Place
	state        string
	report       *inspect.Report
	problem      error // why it has no report though it runs
	failedStarts int
	program      string // its path; of one that gives no report what is known
	plainlyUntil time.Time
}

func (p *program) residentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resident",
		Short: "Show, stop, install and check programs that stay ready between their runs",
		Long: `A program that is made for it, and that nearcall-run has started, stays ready for its
next run in a process that is called its resident. These commands show residents, stop
them, and make programs resident that are not made for it.

Residents are found in $XDG_RUNTIME_DIR/nearcall-resident, or in
/tmp/nearcall-resident-UID if that variable is not set. Those of your sessions and
those of your services may be in different directories, so both are searched. PROGRAM
is a name, for every version of the program that runs, or a path, for the version that
is there. Without PROGRAM all residents are meant.

A resident that is stopped finishes what runs, and the next run starts another one.`,
	}
	cmd.AddCommand(
		p.residentListCommand(),
		p.residentStatusCommand(),
		p.residentStopCommand(),
		p.residentLogCommand(),
		p.residentInstallCommand(),
		p.residentInstalledCommand(),
		p.residentRemoveCommand(),
		p.residentCheckCommand(),
		p.residentBeginCommand(),
	)
	return cmd
}

// residentSubcommand makes one of them; all take a program and --json.
func (p *program) residentSubcommand(use, short string, run func(ctx context.Context, program string, asJSON bool) error) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               use,
		Short:             short,
		Args:              arguments(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeResident,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), p.timeout)
			defer cancel()
			return run(ctx, append(args, "")[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func (p *program) residentListCommand() *cobra.Command {
	cmd := p.residentSubcommand("list [PROGRAM]", "List the residents of this user", func(ctx context.Context, program string, asJSON bool) error {
		found, err := residencies(ctx, program)
		if err != nil {
			return err
		}
		if asJSON {
			return p.printResidencies(found)
		}
		return p.printResidents(found)
	})
	cmd.Long = `Lists the residents of this user, and programs that could not be made resident.

Their state is running, leaving (finishes what runs), silent (listens and gives no
report) or failing (its last starts came to nothing; 'nearcall resident log' tells why:
mend it, then 'nearcall resident stop PROGRAM').`
	cmd.Example = `  nearcall resident list
  nearcall resident list --json | jq -r '.[].report.pid'`
	return cmd
}

func (p *program) residentStatusCommand() *cobra.Command {
	cmd := p.residentSubcommand("status [PROGRAM]", "Show how residents are", func(ctx context.Context, program string, asJSON bool) error {
		found, err := residencies(ctx, program)
		if err == nil && len(found) == 0 {
			err = errNoResident(program)
		}
		if err != nil {
			return err
		}
		if asJSON {
			return p.printResidencies(found)
		}
		for _, r := range found {
			if err := p.printStatus(r); err != nil {
				return err
			}
		}
		return nil
	})
	cmd.Long = `Shows how residents are: processes, runs, when they leave, where their files are.
Exit code 1 when there is none.`
	return cmd
}

func (p *program) residentStopCommand() *cobra.Command {
	cmd := p.residentSubcommand("stop [PROGRAM]", "Tell residents to finish what runs and to leave", func(ctx context.Context, program string, asJSON bool) error {
		places, err := inspect.Places(program)
		if err != nil {
			return err
		}
		stopped, failures := stopAll(ctx, places)
		if program != "" {
			forgotten, err := forgetStarts(places)
			stopped, failures = append(stopped, forgotten...), errors.Join(failures, err)
		}
		if asJSON {
			return errors.Join(p.printResidencies(stopped), failures)
		}
		if len(stopped) == 0 && failures == nil && program != "" {
			return errNoResident(program)
		}
		for _, r := range stopped {
			if r.report == nil {
				fmt.Fprintf(p.out, "%s: its failed starts are forgotten: %d\n", cmp.Or(printable(r.program), r.place.Name), r.failedStarts)
				continue
			}
			fmt.Fprintf(p.out, "%s: process %d leaves%s\n", r.place.Name, r.report.ProcessID, whenFinished(r.report.Running))
		}
		return failures
	})
	cmd.Long = `Tells residents to finish what runs and to leave, and returns when they have said that
they will: those of PROGRAM, or all of yours if none is named. The next run starts
another. If the starts of a program that is named have failed, the command forgets that,
so that the next run tries again. The exit code is 1 if a program was named that has no
resident.`
	return cmd
}

// stopAll asks all at once: one that is silent keeps the others from nothing.
func stopAll(ctx context.Context, places []inspect.Place) (stopped []residency, failures error) {
	reports, errs := make([]*inspect.Report, len(places)), make([]error, len(places))
	var asked sync.WaitGroup
	for i, place := range places {
		asked.Go(func() { reports[i], errs[i] = place.Stop(ctx) })
	}
	asked.Wait()
	for i, place := range places {
		switch {
		case errs[i] == nil:
			stopped = append(stopped, residency{place: place, state: stateLeaving, report: reports[i]})
		case !errors.Is(errs[i], inspect.ErrNotRunning):
			failures = errors.Join(failures, fmt.Errorf("%s: %w", place.Name, errs[i]))
		}
	}
	return stopped, failures
}

// forgetStarts does so for places with starts that came to nothing.
func forgetStarts(places []inspect.Place) (forgotten []residency, failures error) {
	for _, place := range places {
		count, _, err := place.FailedStarts()
		program := place.FailedProgram()
		if err != nil || count > 0 {
			err = place.ForgetStarts()
		}
		if failures = errors.Join(failures, err); err == nil && count > 0 {
			forgotten = append(forgotten, residency{place: place, state: stateGone, failedStarts: count, program: program})
		}
	}
	return forgotten, failures
}

func whenFinished(running int) string {
	switch running {
	case 0:
		return ""
	case 1:
		return " when 1 run has ended"
	}
	return fmt.Sprintf(" when %d runs have ended", running)
}

func (p *program) residentLogCommand() *cobra.Command {
	cmd := p.residentSubcommand("log [PROGRAM]", "Show what residents said outside of runs", func(_ context.Context, program string, asJSON bool) error {
		places, err := inspect.Places(program)
		if err != nil {
			return err
		}
		type log struct {
			Name string `json:"name"`
			Path string `json:"path"`
			Text string `json:"text"`
		}
		var logs []log
		for _, place := range places {
			text, err := os.ReadFile(place.Log)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			logs = append(logs, log{place.Name, place.Log, string(text)})
		}
		switch {
		case asJSON:
			return p.printIndented(append([]log{}, logs...))
		case len(logs) == 0 && program != "":
			return fmt.Errorf("%s has no log: it was not resident yet, or left none", program)
		}
		for _, l := range logs {
			fmt.Fprintf(p.out, "==> %s <==\n%s", styleFor(p.out).bold(l.Path), l.Text)
		}
		return nil
	})
	cmd.Long = `Shows what residents, and programs that were started as such, said outside of runs.
What runs say goes to their callers.`
	return cmd
}

func errNoResident(program string) error {
	if program == "" {
		return errors.New("nothing is resident: start a program by nearcall-run")
	}
	return fmt.Errorf("%s: %w; start it by nearcall-run", program, inspect.ErrNotRunning)
}

// residencies asks all residents of a program. What nobody listens at counts only when
// its starts fail.
func residencies(ctx context.Context, program string) ([]residency, error) {
	places, err := inspect.Places(program)
	if err != nil {
		return nil, err
	}
	all := make([]residency, len(places))
	var asked sync.WaitGroup
	for i, place := range places {
		asked.Go(func() { all[i] = ask(ctx, place) })
	}
	asked.Wait()
	return slices.DeleteFunc(all, func(r residency) bool { return r.state == stateGone }), nil
}

func ask(ctx context.Context, place inspect.Place) residency {
	r := residency{place: place}
	r.report, r.problem = place.Status(ctx)
	switch {
	case r.problem == nil && r.report.Leaving:
		r.state = stateLeaving
	case r.problem == nil:
		r.state = stateRunning
	case errors.Is(r.problem, inspect.ErrNotRunning):
		r.state = stateGone
		if r.failedStarts, r.plainlyUntil, r.problem = place.FailedStarts(); r.failedStarts > 0 {
			r.state, r.program = stateFailing, place.FailedProgram()
		}
	default:
		r.state = stateSilent
	}
	return r
}

// completeResident offers the names that there are files of; silent otherwise.
func completeResident(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	places, err := inspect.Places("")
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []cobra.Completion
	for _, place := range places {
		names = append(names, cobra.CompletionWithDesc(place.Name, place.Identity))
	}
	return names, cobra.ShellCompDirectiveDefault
}
