// Package installed is about launchers for programs that know nothing of residents, as
// 'nearcall resident install' makes them: a link to nearcall-run with the program's
// name, and beside it, in Folder, what starts the program as a resident. The program
// itself is not touched. What is started looks at the program's first line anew each
// time, so that nothing has to be made again when the program is installed anew.
package installed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Folder is beside the links; nearcall-run looks for a program's name in it.
const Folder = ".nearcall-resident"

// LauncherName is that of the file to which links lead.
const LauncherName = "nearcall-run"

// Settings are how a program is made resident.
type Settings struct {
	Program  string   `json:"program"` // where it was found
	Language Language `json:"language,omitempty"`
	Entry    string   `json:"entry"`   // MODULE:FUNCTION of Python, in place of the file
	Preload  []string `json:"preload"` // modules that each run would load
	Path     []string `json:"path"`    // where else modules are found
	// What the program reads before its runs where nobody sees it, as in the options of
	// programs that hold the line themselves.
	Watch         []string `json:"watch,omitempty"`       // files
	Environment   []string `json:"environment,omitempty"` // variables, or their beginnings
	Reread        []string `json:"reread,omitempty"`      // that runs read again
	SameDirectory *bool    `json:"same_directory,omitempty"`
	EarlyInput    *bool    `json:"early_input,omitempty"`
}

// SaysHow tells whether anything but the program is given.
func (s Settings) SaysHow() bool {
	return s.Language != "" || s.Entry != "" || s.SameDirectory != nil || s.EarlyInput != nil ||
		len(s.Preload)+len(s.Path)+len(s.Watch)+len(s.Environment)+len(s.Reread) > 0
}

// Absolute makes paths absolute, as residents are started elsewhere.
func (s *Settings) Absolute() error {
	for _, paths := range [][]string{s.Path, s.Watch} {
		for i, path := range paths {
			absolute, err := filepath.Abs(path)
			if err != nil {
				return err
			}
			paths[i] = absolute
		}
	}
	return nil
}

// A Launcher is what is installed of one program.
type Launcher struct {
	Link string `json:"link"`
	Settings
}

// Name is that of the program.
func (l Launcher) Name() string { return filepath.Base(l.Link) }

func (l Launcher) starter() string { return filepath.Join(filepath.Dir(l.Link), Folder, l.Name()) }

// settingsMark is before the settings in the file that starts the program.
const settingsMark = "# settings: "

// Install makes the launcher; tools are the paths of nearcall-run and nearcall.
func (l Launcher) Install(launcher, nearcall string) error {
	if err := l.isFree(); err != nil {
		return err
	}
	settings, err := json.Marshal(l.Settings)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("#!/bin/sh\n# Made by 'nearcall resident install'; 'nearcall resident remove %s' removes it.\n%s%s\nexec %s resident begin \"$0\" \"$2\"\n",
		l.Name(), settingsMark, settings, Quoted(nearcall))
	if err := os.MkdirAll(filepath.Dir(l.starter()), 0o755); err != nil {
		return err
	}
	fresh := l.starter() + ".new"
	if err := errors.Join(os.WriteFile(fresh, []byte(text), 0o755), os.Rename(fresh, l.starter())); err != nil {
		return err
	}
	fresh = l.starter() + ".link"
	return errors.Join(os.Symlink(launcher, fresh), os.Rename(fresh, l.Link))
}

// isFree is an error where something else lies than what Install made.
func (l Launcher) isFree() error {
	if _, err := os.Lstat(l.Link); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	is, err := l.isLinkOrNothing()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(l.starter()); err != nil || !is {
		return fmt.Errorf("%s is there already and stays: another directory is needed (--into)", l.Link)
	}
	return nil
}

// isLinkOrNothing tells whether what lies at the link's path leads to nearcall-run, if
// anything lies there: a package manager may have put a program there since.
func (l Launcher) isLinkOrNothing() (bool, error) {
	info, err := os.Lstat(l.Link)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return false, err
	}
	target, err := os.Readlink(l.Link)
	return filepath.Base(target) == LauncherName, err
}

// Remove removes the launcher; the program stays as it is. What lies in the link's place
// and is none stays as well.
func (l Launcher) Remove() (stays bool, err error) {
	is, err := l.isLinkOrNothing()
	if err != nil {
		return true, err
	}
	if is {
		if err = os.Remove(l.Link); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	err = errors.Join(err, os.Remove(l.starter()))
	_ = os.Remove(filepath.Dir(l.starter())) // where it was the last one
	return !is, err
}

// Quoted is a word as shells take it.
func Quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// Launchers returns what is installed in these directories.
func Launchers(directories []string) ([]Launcher, error) {
	var all []Launcher
	var seen []string
	for _, directory := range directories {
		// PATH may have one by several names, as /bin and /usr/bin.
		there, err := filepath.EvalSymlinks(directory)
		if err != nil || !filepath.IsAbs(directory) || slices.Contains(seen, there) {
			continue
		}
		seen = append(seen, there)
		entries, err := os.ReadDir(filepath.Join(directory, Folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		for _, entry := range entries {
			l := Launcher{Link: filepath.Join(directory, entry.Name())}
			if l.Settings, err = read(l.starter()); err == nil {
				all = append(all, l)
			}
		}
	}
	return all, nil
}

// read returns the settings in the file that starts a program.
func read(starter string) (Settings, error) {
	var settings Settings
	text, err := os.ReadFile(starter)
	if err != nil {
		return settings, err
	}
	for line := range bytes.Lines(text) {
		if found, is := bytes.CutPrefix(line, []byte(settingsMark)); is {
			return settings, json.Unmarshal(found, &settings)
		}
	}
	return settings, fmt.Errorf("%s has no settings: 'nearcall resident install' makes it anew", starter)
}

// Begin returns the command that is the resident of the program.
func Begin(starter, program string) ([]string, error) {
	settings, err := read(starter)
	if err != nil {
		return nil, err
	}
	return settings.command(program, false)
}

// Check tries what the resident will do first, up to the program itself.
func (s Settings) Check() error {
	command, err := s.command(s.Program, true)
	if err != nil {
		return err
	}
	said, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s cannot be made resident: %s\n%s", s.Program, reasonIn(said, err), s.advice(command[0]))
}

// reasonIn is the last line of what an interpreter said, which has it.
func reasonIn(said []byte, err error) string {
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	for _, line := range lines {
		if strings.Contains(line, "@INC") { // Perl begins with it
			return line
		}
	}
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return err.Error()
}

func (s Settings) advice(interpreter string) string {
	if s.Language == Perl {
		return fmt.Sprintf("%s has to find Nearcall::Resident and what --preload names; --path names a directory that has them", interpreter)
	}
	return fmt.Sprintf("%s has to find nearcall ('%s -m pip install nearcall'), and what --entry and --preload name; --path names a directory that has them", interpreter, interpreter)
}

const (
	pythonBegin = "import sys, json; sys.path += json.loads(sys.argv[1])['path']; from nearcall import _installed; _installed.begin()"
	pythonCheck = "import sys, json; sys.path += json.loads(sys.argv[1])['path']; from nearcall import _installed; _installed.check()"
)

// command is the interpreter that the program's first line names now, and what it is to do.
func (s Settings) command(program string, checks bool) ([]string, error) {
	interpreter, err := interpreterOf(program)
	if err != nil {
		return nil, err
	}
	language := s.Language
	if language == "" {
		if language, err = languageOf(interpreter); err != nil {
			return nil, fmt.Errorf("%s: %w", program, err)
		}
	}
	if language == Perl {
		return s.perl(interpreter, program, checks)
	}
	settings, err := json.Marshal(struct {
		Settings
		Interpreter string `json:"interpreter"`
	}{s, interpreter[0]})
	if checks {
		return append(interpreter, "-c", pythonCheck, string(settings), program), err
	}
	return append(interpreter, "-c", pythonBegin, string(settings), program), err
}

func (s Settings) perl(interpreter []string, program string, checks bool) ([]string, error) {
	if s.Entry != "" {
		return nil, fmt.Errorf("%s: --entry is for programs in Python", program)
	}
	for _, path := range s.Path {
		interpreter = append(interpreter, "-I"+path)
	}
	module := "-MNearcall::Resident::Installed"
	words := append(slices.Clone(s.Preload), s.perlOptions()...)
	if len(words) > 0 {
		module += "=" + strings.Join(words, ",")
	}
	if checks {
		return append(interpreter, module, "-e", "1"), nil
	}
	return append(interpreter, module, program, "--nearcall-resident"), nil
}

// perlOptions are words of a list in which commas stand between.
func (s Settings) perlOptions() (words []string) {
	for name, values := range map[string][]string{"watch": s.Watch, "environment": s.Environment, "reread": s.Reread} {
		for _, value := range values {
			words = append(words, "-"+name+"="+value)
		}
	}
	for name, value := range map[string]*bool{"same_directory": s.SameDirectory, "early_input": s.EarlyInput} {
		if value != nil && *value {
			words = append(words, "-"+name+"=1")
		} else if value != nil {
			words = append(words, "-"+name+"=0")
		}
	}
	slices.Sort(words)
	return words
}
