package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/installed"
	"github.com/nearcall/nearcall/resident/inspect"
)

func (p *program) residentInstallCommand() *cobra.Command {
	var settings installed.Settings
	var into string
	var chosen languages
	cmd := &cobra.Command{
		Use:   "install PROGRAM",
		Short: "Keep a program ready that somebody else wrote, without changing it",
		Long: `Makes a launcher for a program in Perl or Python that knows nothing of residents. The
program is not touched, and works as before when it is called by its path. The
launcher is a link with the program's name, in a directory that should stand before the
program's in PATH. After an upgrade of the program it serves the new version.

In a program in Python, everything up to the first statement that does more than import,
define or name something is run once, and the rest is run by each run. So what pip makes
of an entry point is loaded once. If that is not enough, --entry names the function to
call instead. A program in Perl is compiled once, with everything that it uses, and each
run begins with its first statement. --preload names modules that runs would load.

What is loaded must not read what belongs to a run. If variables, the directory or
standard input are read before the run, they are compared for each caller, if the
reading is noticed or a flag declares it. 'nearcall resident check' shows the rest. An
administrator may forbid residents: see nearcall-run(1).`,
		Example: `  nearcall resident install black
  nearcall resident install black --entry black:patched_main --preload black.linegen,blib2to3.pgen2.driver
  nearcall resident install exiftool --preload Image::ExifTool`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			settings.Language = chosen.chosen()
			return p.install(args[0], into, settings)
		},
	}
	settingsFlags(cmd, &settings, &chosen)
	cmd.Flags().StringVar(&into, "into", "", "the `directory` of the launcher (default "+installedDefault+")")
	return cmd
}

// settingsFlags are those about how a program is kept.
func settingsFlags(cmd *cobra.Command, settings *installed.Settings, chosen *languages) {
	settings.Preload, settings.Path = []string{}, []string{}
	flags := cmd.Flags()
	flags.StringVar(&settings.Entry, "entry", "", "call this `MODULE:FUNCTION` of Python instead of running the file")
	flags.StringSliceVar(&settings.Preload, "preload", settings.Preload, "load these `modules` once, too")
	flags.StringSliceVar(&settings.Path, "path", settings.Path, "find modules in these `directories`, too")
	flags.StringSliceVar(&settings.Watch, "watch", nil, "leave when one of these `files` changes, because they are read before the run")
	flags.StringSliceVar(&settings.Environment, "environment", nil, "serve only callers with the same values of these `variables`, which are read before the run without being noticed")
	flags.StringSliceVar(&settings.Reread, "reread", nil, "callers may have other values of these `variables`, because each run reads them again")
	choice(cmd, &settings.SameDirectory, "same-directory", "serve only callers in the same directory, because the program looks at it before the run; =false: each run looks again, so callers may be anywhere")
	choice(cmd, &settings.EarlyInput, "early-input", "the program asks before the run what its standard input is; =false: each run asks again")
	flags.BoolVar(&chosen.perl, "perl", false, "the program is in Perl, whatever its first line says")
	flags.BoolVar(&chosen.python, "python", false, "the program is in Python, whatever its first line says")
	cmd.MarkFlagsMutuallyExclusive("perl", "python")
}

// choice is a flag that need not be given.
func choice(cmd *cobra.Command, value **bool, name, usage string) {
	cmd.Flags().BoolFunc(name, usage, func(text string) error {
		chosen, err := strconv.ParseBool(text)
		*value = &chosen
		return err
	})
}

// languages are the flags of which one may be set.
type languages struct{ perl, python bool }

func (l languages) chosen() installed.Language {
	switch {
	case l.perl:
		return installed.Perl
	case l.python:
		return installed.Python
	}
	return ""
}

const installedDefault = "~/.local/share/nearcall/bin"

// installedIn is where launchers are made if nobody says where.
func installedIn() (string, error) {
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "nearcall/bin"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%w; --into names a directory", err)
	}
	return filepath.Join(home, ".local/share/nearcall/bin"), nil
}

func (p *program) install(program, into string, settings installed.Settings) error {
	directory, err := installedIn()
	if into != "" {
		directory, err = filepath.Abs(into)
	}
	if err != nil {
		return err
	}
	if settings.Program, err = findProgram(program); err != nil {
		return err
	}
	if err := settings.Absolute(); err != nil {
		return err
	}
	launcher, nearcall, err := ownTools()
	if err != nil {
		return err
	}
	if err := settings.Check(); err != nil {
		return err
	}
	l := installed.Launcher{Link: filepath.Join(directory, filepath.Base(settings.Program)), Settings: settings}
	if err := l.Install(launcher, nearcall); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%s: %s keeps %s ready\n", l.Name(), l.Link, settings.Program)
	if !standsBefore(directory, filepath.Dir(settings.Program)) {
		fmt.Fprintf(p.out, "It is used when this directory stands first in PATH:\n    export PATH=%s:\"$PATH\"\n", directory)
	}
	return nil
}

// findProgram returns the absolute path of a program that is no launcher.
func findProgram(name string) (string, error) {
	if strings.Contains(name, "/") {
		path, err := filepath.Abs(name)
		if err == nil {
			_, err = os.Stat(path)
		}
		return path, err
	}
	for _, directory := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(cmp.Or(directory, "."), name)
		if exe, err := exec.LookPath(path); err == nil && !isLauncher(exe) {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("there is no program %s in PATH; a path says where it is", name)
}

func isLauncher(path string) bool {
	target, err := filepath.EvalSymlinks(path)
	return err == nil && filepath.Base(target) == installed.LauncherName
}

// ownTools are those of this installation, if they lie together, else those in PATH.
func ownTools() (launcher, nearcall string, err error) {
	if nearcall, err = os.Executable(); err != nil {
		return "", "", err
	}
	launcher = filepath.Join(filepath.Dir(nearcall), installed.LauncherName)
	if _, err := os.Stat(launcher); err == nil {
		return launcher, nearcall, nil
	}
	if launcher, err = exec.LookPath(installed.LauncherName); err != nil {
		return "", "", fmt.Errorf("%w: 'make install' puts it beside nearcall", err)
	}
	launcher, err = filepath.Abs(launcher)
	return launcher, nearcall, err
}

func standsBefore(directory, other string) bool {
	path := filepath.SplitList(os.Getenv("PATH"))
	at, behind := slices.Index(path, directory), slices.Index(path, other)
	return at >= 0 && (behind < 0 || at < behind)
}

// launchers returns those of this user, and those that PATH has.
func launchers(name string) ([]installed.Launcher, error) {
	directories := filepath.SplitList(os.Getenv("PATH"))
	if own, err := installedIn(); err == nil {
		directories = append([]string{own}, directories...)
	}
	all, err := installed.Launchers(directories)
	return slices.DeleteFunc(all, func(l installed.Launcher) bool { return name != "" && name != l.Name() && name != l.Link }), err
}

func (p *program) residentInstalledCommand() *cobra.Command {
	cmd := p.residentSubcommand("installed [PROGRAM]", "List the launchers that 'install' has made", func(_ context.Context, program string, asJSON bool) error {
		all, err := launchers(program)
		if err != nil {
			return err
		}
		if asJSON {
			return p.printIndented(append([]installed.Launcher{}, all...))
		}
		for _, l := range all {
			fmt.Fprintf(p.out, "%s  %s  %s\n", l.Name(), printable(l.Link), printable(l.Program))
		}
		return nil
	})
	cmd.Long = `Lists the launchers in PATH, and in the directory of this user, that 'nearcall resident
install' has made: the program's name, the launcher, and the program as it was then.
Those of them that run are listed by 'nearcall resident list'.`
	return cmd
}

func (p *program) residentRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove PROGRAM",
		Short: "Remove a launcher that 'install' has made",
		Long: `Removes the launchers of a program that 'nearcall resident install' has made, and tells
its residents to finish what runs and to leave. The program itself was not changed.`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := launchers(args[0])
			if err == nil && len(all) == 0 {
				err = fmt.Errorf("%s: there is no launcher of it; 'nearcall resident installed' lists them", args[0])
			}
			for _, l := range all {
				stays, removed := l.Remove()
				if removed != nil {
					err = errors.Join(err, removed)
					continue
				}
				if stays {
					fmt.Fprintf(p.out, "%s: %s stays, as it is no link to %s; what starts its resident is removed\n", l.Name(), l.Link, installed.LauncherName)
				} else {
					fmt.Fprintf(p.out, "%s: %s is removed\n", l.Name(), l.Link)
				}
				err = errors.Join(err, p.stopInstalled(cmd.Context(), l.Name()))
			}
			return err
		},
	}
}

func (p *program) stopInstalled(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	places, err := inspect.Places(name)
	if err != nil {
		return err
	}
	_, err = stopAll(ctx, places)
	return err
}

// residentBeginCommand is what a launcher starts: it becomes the resident.
func (p *program) residentBeginCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "begin STARTER PROGRAM",
		Hidden: true,
		Args:   arguments(cobra.ExactArgs(2)),
		RunE: func(_ *cobra.Command, args []string) error {
			command, err := installed.Begin(args[0], args[1])
			if err != nil {
				return err
			}
			return fmt.Errorf("%s: %w", command[0], syscall.Exec(command[0], command, os.Environ()))
		},
	}
}
