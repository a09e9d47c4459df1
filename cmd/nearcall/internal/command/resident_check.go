package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/installed"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/residentcheck"
)

// checkRunTimeout is for each run unless --timeout says otherwise: some programs are worth
// keeping ready because they take so long.
const checkRunTimeout = 2 * time.Minute

// errDiffers ends `resident check`, which has said everything already.
var errDiffers = errors.New("the resident's runs differ from plain ones")

// errUnchecked is one of what could not be compared.
var errUnchecked = errors.New("nothing could be compared")

// A checking is one run of `nearcall resident check`.
type checking struct {
	*program
	settings  installed.Settings
	languages languages
	directory string
	home      string
	input     string
	pipe      string
	ignore    []string
	asJSON    bool
}

func (p *program) residentCheckCommand() *cobra.Command {
	c := &checking{program: p}
	cmd := &cobra.Command{
		Use:   "check [FLAGS] PROGRAM [ARGUMENTS...]",
		Short: "Compare a program's runs by a resident with plain ones",
		Long: `Runs a program plainly and by a resident, and compares what it writes, how it ends
and which files it leaves behind. A program in Perl or Python that is not made for it is
tried as 'nearcall resident install' would keep it ready. The flags are the same, and
nothing is installed.

The program runs six times. Two plain runs show what differs by itself. Two runs use a
resident that the first of them has started. Another run starts a resident from an empty
directory, with an empty HOME, without input and with only the most necessary variables,
and one more run uses that resident: it shows what the program had read too early. Each run
begins in a copy of the current directory as it was. Whatever a run does elsewhere, also
below HOME, is really done, and done six times. Standard input is /dev/null unless --input
or --pipe names a file, and there is no terminal. A run that writes more than 64 MiB, or
takes longer than --timeout, is given up.

Lines that differ between plain runs are not compared, nor are the compiled modules that
Python keeps. The exit code is 1 if something differs, and 3 if nothing could be compared.`,
		Example: `  nearcall resident check ./report --since yesterday
  nearcall resident check --preload black.linegen black --check src
  nearcall resident check --pipe access.log --ignore '^took ' ack error`,
		Args: arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			timeout := checkRunTimeout
			if cmd.Flags().Changed("timeout") {
				timeout = p.timeout
			}
			return unchecked(c.run(cmd.Context(), args, timeout))
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // the others are the program's
	settingsFlags(cmd, &c.settings, &c.languages)
	flags.StringVar(&c.directory, "directory", ".", "copy this `directory`, which must be the current one or contain it")
	flags.StringVar(&c.home, "home", "", "give the runs a copy of this `directory` as their HOME")
	flags.StringVar(&c.input, "input", "", "standard input is this `file`")
	flags.StringVar(&c.pipe, "pipe", "", "standard input is a pipe with the contents of this `file`")
	flags.StringArrayVar(&c.ignore, "ignore", nil, "do not compare lines that match this `expression`")
	flags.BoolVar(&c.asJSON, "json", false, "print a JSON object")
	cmd.MarkFlagsMutuallyExclusive("input", "pipe")
	return cmd
}

// unchecked is an error with the code of its own that it has, unless the command line is wrong.
func unchecked(err error) error {
	var usage usageError
	if err == nil || errors.Is(err, errDiffers) || errors.As(err, &usage) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnchecked, err)
}

func (c *checking) run(ctx context.Context, args []string, timeout time.Duration) error {
	setting, err := c.setting(args, timeout)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "nearcall-launcher-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	kept, err := c.kept(setting.Plain[0])
	if err != nil {
		return err
	}
	if setting.Resident, err = launcherOf(temporary, kept); err != nil {
		return err
	}
	setting.Resident = append(setting.Resident, args[1:]...)
	report, err := residentcheck.Check(ctx, setting)
	if err != nil {
		return err
	}
	if c.asJSON {
		err = c.printIndented(report)
	} else {
		err = c.printCheck(report, kept)
	}
	if err == nil && !report.Same {
		err = errDiffers
	}
	return err
}

// setting is what is known without a launcher.
func (c *checking) setting(args []string, timeout time.Duration) (s residentcheck.Setting, err error) {
	program, err := findProgram(args[0])
	if err != nil {
		return s, err
	}
	s.Plain, s.RunTimeout, s.Environment = append([]string{program}, args[1:]...), timeout, checkEnvironment(program)
	for _, expression := range c.ignore {
		r, err := regexp.Compile(expression)
		if err != nil {
			return s, usageError{fmt.Errorf("--ignore: %w", err)}
		}
		s.Ignore = append(s.Ignore, r)
	}
	if s.Input, err = c.inputOf(); err != nil {
		return s, err
	}
	if s.Directory, s.Within, err = within(c.directory); err != nil || c.home == "" {
		return s, err
	}
	s.Home, err = filepath.Abs(c.home)
	return s, err
}

func (c *checking) inputOf() (residentcheck.Input, error) {
	path := c.input + c.pipe // one of them is empty
	if path == "" {
		return residentcheck.Input{}, nil
	}
	path, err := filepath.Abs(path)
	return residentcheck.Input{Path: path, Pipe: c.pipe != ""}, err
}

// within returns the directory, and the current one below it.
func within(directory string) (whole, below string, err error) {
	current, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	if whole, err = filepath.Abs(directory); err != nil {
		return "", "", err
	}
	if below, err = filepath.Rel(whole, current); err != nil || strings.HasPrefix(below, "..") {
		return "", "", usageError{fmt.Errorf("--directory %s: the current directory is not in it; go there first", directory)}
	}
	return whole, below, nil
}

// checkEnvironment is that of this process, without what is about launchers. A launcher
// finds the program in PATH.
func checkEnvironment(program string) []string {
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"NEARCALL_NO_RESIDENT", "NEARCALL_RUN_DEBUG", "NEARCALL_RUN_ANSWER_MS", "OLDPWD"}, name)
	})
	if found, err := findProgram(filepath.Base(program)); err != nil || found != program {
		environment = append(environment, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	}
	return environment
}

// launcherOf returns the command that runs the program by its resident: the one that it is
// made for, or one that is made of it for this check alone.
func launcherOf(temporary string, k kept) ([]string, error) {
	run, nearcall, err := ownTools()
	if err != nil {
		return nil, err
	}
	if !k.foreign {
		return []string{run, k.Program}, nil
	}
	if err := k.Check(); err != nil {
		return nil, err
	}
	l := installed.Launcher{Link: filepath.Join(temporary, filepath.Base(k.Program)), Settings: k.Settings}
	return []string{l.Link}, l.Install(run, nearcall)
}

// A kept is how a program is kept ready: one that knows nothing of residents by settings,
// any other by a line of its own.
type kept struct {
	installed.Settings
	foreign bool
}

// kept is as the flags say, or as the program is installed.
func (c *checking) kept(program string) (k kept, err error) {
	k.Settings = c.settings
	k.Program, k.Language = program, c.languages.chosen()
	if k.foreign = k.SaysHow(); k.foreign {
		return k, k.Absolute()
	}
	all, err := launchers(filepath.Base(program))
	if err != nil {
		return k, err
	}
	for _, l := range all {
		if l.Program == program {
			return kept{l.Settings, true}, nil
		}
	}
	made, err := isMadeForIt(program)
	k.foreign = !made
	return k, err
}

// isMadeForIt looks for what programs with the line have. Any other one would be run with
// an argument that it does not know.
func isMadeForIt(program string) (bool, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return false, err
	}
	if !bytes.HasPrefix(text, []byte("#!")) {
		if bytes.Contains(text, []byte("--nearcall-resident")) {
			return true, nil
		}
		return false, fmt.Errorf("%s is no script, and is not made for it: programs in Go become resident by one line in them (resident.Main), others cannot", program)
	}
	return bytes.Contains(text, []byte("nearcall.resident")) || bytes.Contains(text, []byte("nearcall import resident")) ||
		bytes.Contains(text, []byte("Nearcall::Resident")), nil
}
