package resident

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Path returns the path of a file that the caller has named. Relative names are
// relative to the caller's directory.
func (inv *Invocation) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(inv.directoryPath(), name)
}

// directoryPath returns a path by which the caller's directory is found even if it has
// no name any more: that of its descriptor.
func (inv *Invocation) directoryPath() string {
	if inv.Dir == "" && inv.directory != nil {
		return inv.directory.Name()
	}
	if inv.Dir == "" {
		return "."
	}
	return inv.Dir
}

// Command returns a command that runs with the caller's directory, environment, umask
// and streams. The program is looked up in the caller's PATH; see exec.CommandContext.
// It runs on the resident's side. For a program that needs the terminal to itself use
// Execute.
func (inv *Invocation) Command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, arguments...)
	if inv.Resident {
		command.Path, command.Err = inv.lookPath(name)
	}
	command.Dir, command.Env = inv.directoryPath(), firstOfEach(inv.Env)
	command.Stdin, command.Stdout, command.Stderr = inv.inputOfCommands(), inv.Stdout, inv.Stderr
	if inv.foreignUmask() && command.Err == nil {
		script := fmt.Sprintf(`umask %04o; exec "$0" "$@"`, inv.Umask)
		command.Args = append([]string{"sh", "-c", script, command.Path}, arguments...)
		command.Path = "/bin/sh"
	}
	return command
}

// firstOfEach keeps the first of variables that occur more than once, as a plain run
// does. Package exec would take the last one.
func firstOfEach(variables []string) []string {
	seen := make(map[string]bool, len(variables))
	kept := make([]string, 0, len(variables))
	for _, variable := range variables {
		name, _, _ := strings.Cut(variable, "=")
		if !seen[name] {
			seen[name] = true
			kept = append(kept, variable)
		}
	}
	return kept
}

// inputOfCommands returns the input that commands inherit. It is not one that was
// reopened in non-blocking mode for this process, because commands do not expect that.
func (inv *Invocation) inputOfCommands() *os.File {
	if inv.passed != nil && inv.Stdin == inv.reopened {
		return inv.passed
	}
	return inv.Stdin
}

// lookPath does what exec.LookPath does, with the caller's PATH and directory.
func (inv *Invocation) lookPath(name string) (string, error) {
	if filepath.Base(name) != name {
		return inv.Path(name), nil
	}
	failure := error(exec.ErrNotFound)
	for _, directory := range filepath.SplitList(inv.Getenv("PATH")) {
		path := filepath.Join(inv.Path(directory), name)
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			failure = err
		}
	}
	return name, &exec.Error{Name: name, Err: failure}
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fs.ErrPermission
	}
	return nil
}
