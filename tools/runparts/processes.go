package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process is one of a part, as /proc tells of it.
type process struct {
	pid, parent int
	state       string
	command     string
}

func (p process) String() string {
	return fmt.Sprintf("process %d of %d, state %s: %s", p.pid, p.parent, p.state, p.command)
}

// commandBytesMax is how much of a command line tells which it is.
const commandBytesMax = 300

// marked returns the processes with a variable: a part's, whichever groups and sessions
// they have moved to and whoever has inherited them.
func marked(variable string) (found []process) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		environment, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(append([]byte{0}, environment...), append([]byte{0}, variable+"\x00"...)) {
			continue
		}
		if p, err := readProcess(filepath.Dir(name)); err == nil {
			found = append(found, p)
		}
	}
	return found
}

func readProcess(folder string) (p process, err error) {
	if p.pid, err = strconv.Atoi(filepath.Base(folder)); err != nil {
		return p, err
	}
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return p, err
	}
	// Its name, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return p, fmt.Errorf("%s: %q", folder, stat)
	}
	p.state = fields[0]
	p.parent, _ = strconv.Atoi(fields[1])
	command, err := os.ReadFile(filepath.Join(folder, "cmdline"))
	p.command = strings.TrimSpace(strings.ReplaceAll(string(command[:min(len(command), commandBytesMax)]), "\x00", " "))
	return p, err
}

// killMarked kills what a part has left running. What it kills is said: a test that
// leaves processes behind has forgotten them; so is what stays in spite of it. A process whose environment was
// replaced is not known to be the part's.
func killMarked(log io.Writer, mark string) {
	said := map[int]bool{}
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		left := marked(mark)
		if len(left) == 0 {
			return
		}
		for _, p := range left {
			if !said[p.pid] {
				fmt.Fprintln(log, "left running, and killed:", p)
				said[p.pid] = true
			}
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	for _, p := range marked(mark) {
		fmt.Fprintln(log, "could not be killed:", p)
	}
}
