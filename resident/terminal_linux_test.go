package resident_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// openTerminal returns both ends of a terminal.
func openTerminal(t *testing.T, rows, columns uint16) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	master = os.NewFile(uintptr(fd), "terminal")
	t.Cleanup(func() { _, _ = master.Close(), slave.Close() })
	return master, slave
}

// A run knows the caller's terminal, reads what is typed there, and leaves its modes.
func TestTerminal(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		master, slave := openTerminal(t, 30, 100)
		l := testlauncher.Launch{Program: path, Args: []string{"terminal"}}
		l.Files[0], l.Files[2] = slave, slave
		read := collect(t, &l.Files[1])
		outcome, err := l.Run()
		must(t, err)
		expect(t, withoutEnding(outcome), testlauncher.Outcome{})
		if got := read(); got != "{Rows:30 Columns:100 Stdin:true Stdout:false Stderr:true}\n" {
			t.Errorf("it sees %q", got)
		}
		before, err := unix.FcntlInt(slave.Fd(), unix.F_GETFL, 0)
		must(t, err)
		l.Args, l.Files[1] = []string{"cat"}, slave
		began, plainly, err := l.Start()
		must(t, err)
		if plainly != nil {
			t.Fatal(plainly.Plainly)
		}
		_, err = master.WriteString("typed\n")
		must(t, err)
		lines := bufio.NewReader(master)
		for range 2 { // the echo, and what the run wrote
			line, err := lines.ReadString('\n')
			if must(t, err); strings.TrimSpace(line) != "typed" {
				t.Errorf("the terminal shows %q", line)
			}
		}
		_, err = master.WriteString("\x04")
		must(t, err)
		outcome, err = began.Wait()
		must(t, err)
		expect(t, withoutEnding(outcome), testlauncher.Outcome{})
		if after, err := unix.FcntlInt(slave.Fd(), unix.F_GETFL, 0); err != nil || after != before {
			t.Errorf("the terminal has flags %#x, and had %#x; %v", after, before, err)
		}
	})
}

// A run that waits for input ends by a signal.
func TestSignalWhileReading(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		b := begin(t, testlauncher.Launch{Program: path, Args: []string{"cat"}})
		b.signal(syscall.SIGINT)
		expect(t, b.wait(), testlauncher.Outcome{Signal: syscall.SIGINT})
		_, _, outcome := run(t, testlauncher.Launch{Program: path})
		expect(t, withoutEnding(outcome), testlauncher.Outcome{})
	})
}
