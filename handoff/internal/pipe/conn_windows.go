package pipe

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// A Conn is one end of a pipe: a file on the runtime's poller, with deadlines.
// Its methods may be called by several goroutines.
type Conn struct {
	*os.File
	process uint32
}

func newConn(handle windows.Handle, name string, peer func(windows.Handle, *uint32) error) (*Conn, error) {
	c := &Conn{}
	if err := peer(handle, &c.process); err != nil {
		_ = windows.CloseHandle(handle)
		return nil, fmt.Errorf("pipe: who is at the other end of %s: %w", name, err)
	}
	c.File = os.NewFile(uintptr(handle), name)
	return c, nil
}

// Process returns the process at the other end, as the pipe knows it.
func (c *Conn) Process() uint32 { return c.process }

// IsSameUser reports whether the process at the other end belongs to the user of
// this one. The process is asked while it holds its end: its number cannot have
// been given to another unless it has ended, and then the pipe has too.
func (c *Conn) IsSameUser() (bool, error) {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, c.process)
	if err != nil {
		return false, fmt.Errorf("pipe: open process %d: %w", c.process, err)
	}
	defer func() { _ = windows.CloseHandle(process) }()
	theirs, err := userOf(process)
	if err != nil {
		return false, fmt.Errorf("pipe: the user of process %d: %w", c.process, err)
	}
	ours, err := userOf(windows.CurrentProcess())
	if err != nil {
		return false, fmt.Errorf("pipe: the user of this process: %w", err)
	}
	return ours.Equals(theirs), nil
}

func userOf(process windows.Handle) (*windows.SID, error) {
	var token windows.Token
	if err := windows.OpenProcessToken(process, windows.TOKEN_QUERY, &token); err != nil {
		return nil, err
	}
	defer func() { _ = token.Close() }()
	user, err := token.GetTokenUser()
	if err != nil {
		return nil, err
	}
	return user.User.Sid.Copy()
}
