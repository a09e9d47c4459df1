package resident

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// This file gives a process everything of it that belongs to a run and, in mode Serial,
// takes that away afterwards. The word for it is "dress".

const streams = 3 // number of the descriptors 0, 1 and 2

// enter changes to the caller's directory.
func (p *passed) enter() error {
	if err := unix.Fchdir(p.directory()); err != nil {
		return plainlyError(fmt.Sprintf("the caller's directory cannot be entered: %v", err))
	}
	return nil
}

// dress gives the process the caller's descriptors, umask, environment and arguments.
func (p *passed) dress() error {
	for fd := range streams {
		if err := unix.Dup3(p.descriptors[fd], fd, 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
	}
	unix.Umask(int(p.Umask))
	os.Args = p.Arguments
	setEnvironment(p.Variables)
	return nil
}

func setEnvironment(variables []string) {
	os.Clearenv()
	for _, variable := range firstOfEach(variables) {
		if name, value, found := strings.Cut(variable, "="); found && name != "" {
			_ = os.Setenv(name, value) // fails only for names that cannot be in an environment
		}
	}
}

// invocation returns what the program is given. The files, and with them all
// descriptors, belong to it from now on.
func (p *passed) invocation(files [streams]*os.File) *Invocation {
	inv := &Invocation{
		Args: p.Arguments, Env: p.Variables, Dir: p.Directory,
		Stdin: files[0], Stdout: files[1], Stderr: files[2],
		Umask: int(p.Umask), Resident: true,
		Peer:      Peer{ProcessID: p.peer.ProcessID, UserID: p.peer.UserID, GroupID: p.peer.GroupID},
		directory: os.NewFile(uintptr(p.directory()), procDescriptor(p.directory())),
	}
	inv.owned = append(files[:], inv.directory)
	p.descriptors = nil
	inv.Terminal = terminalOf(inv)
	if p.Rows != 0 || p.Columns != 0 {
		inv.Terminal.Rows, inv.Terminal.Columns = int(p.Rows), int(p.Columns)
	}
	return inv
}

// lend makes programs that the run starts inherit another input than the run's own, or
// the same if input is nil.
func (inv *Invocation) lend(input *os.File) {
	if input != nil {
		inv.reopened, inv.passed = inv.Stdin, input
		inv.owned = append(inv.owned, input)
	}
}

// close closes what belongs to the run.
func (inv *Invocation) close() {
	inv.rootOnce.Do(func() { inv.rootErr = os.ErrClosed })
	if inv.root != nil {
		_ = inv.root.Close()
	}
	for _, file := range inv.owned {
		_ = file.Close()
	}
}
