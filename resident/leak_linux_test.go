package resident_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/beforemain"
	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// A command that a run starts has the caller's input, which waits as it does there.
func TestInputOfCommandsBlocks(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		r, w, err := os.Pipe()
		must(t, err)
		defer func() { _, _ = r.Close(), w.Close() }()
		must(t, setNonblock(r, false))
		l := testlauncher.Launch{Program: path, Args: []string{"command", "cat", "/proc/self/fdinfo/0"}}
		l.Files[0] = r
		got, stderr, _ := run(t, l)
		_, rest, _ := strings.Cut(got, "flags:")
		text, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		flags, err := strconv.ParseUint(text, 8, 32)
		if err != nil {
			t.Fatalf("%q %q: %v", got, stderr, err)
		}
		if flags&unix.O_NONBLOCK != 0 {
			t.Errorf("a command's input has the flags %#o", flags)
		}
	})
}

// What a run ignores, or asks for when it is over, is not taken from the next run.
func TestSignalsOfTheLastRun(t *testing.T) {
	path := program(t, "serial")
	for _, leaves := range []string{"ignoreall", "late"} {
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			made := filepath.Join(t.TempDir(), "made")
			run(t, testlauncher.Launch{Program: path, Args: []string{leaves, made}})
			if leaves == "late" {
				await(t, "what the goroutine does", func() bool {
					_, err := os.Stat(made)
					return err == nil
				})
			}
			b := begin(t, testlauncher.Launch{Program: path, Args: []string{"ignore"}})
			b.line()
			b.signal(s)
			expect(t, b.wait(), testlauncher.Outcome{Signal: s})
		}
	}
}

// What a package of the program starts when it is initialized has nothing of the
// resident: it keeps neither launchers nor the end of a run waiting.
func TestProgramsStartedBeforeMain(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		started := filepath.Join(t.TempDir(), "started")
		t.Setenv(beforemain.Variable, started)
		t.Cleanup(func() { killAll(t, started) })
		b := begin(t, testlauncher.Launch{Program: path, Args: []string{"wait"}})
		resident := status(t, path).ProcessID
		must(t, syscall.Kill(b.ProcessID, syscall.SIGKILL))
		b.wait()
		_ = syscall.Kill(resident, syscall.SIGKILL) // it may be who had the run
		awaitEnd(t, resident)
		await(t, "the end of the address", func() bool {
			conn, err := net.Dial("unix", placeOf(t, path).Socket())
			if err == nil {
				must(t, conn.Close())
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		})
	})
}

// killAll kills the processes whose numbers are in a file.
func killAll(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	must(t, err)
	for _, number := range strings.Fields(string(text)) {
		_ = syscall.Kill(atoi(t, number), syscall.SIGKILL)
	}
}

// A code is the program's own when it has written nothing, read or not.
func TestNobodyReadsWhatIsNotWritten(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		b := begin(t, testlauncher.Launch{Program: path, Args: []string{"quiet"}})
		must(t, b.reader.Close())
		must(t, b.input.Close())
		expect(t, withoutEnding(b.wait()), testlauncher.Outcome{Code: 3})
	})
}

// The output has the modes of the caller's file, not those of the resident's log.
func TestOutputAtAPlace(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		file, err := os.Create(filepath.Join(t.TempDir(), "output"))
		must(t, err)
		l := testlauncher.Launch{Program: path, Args: []string{"writeat"}}
		l.Files[1] = file
		readErrors := collect(t, &l.Files[2])
		outcome, err := l.Run()
		must(t, err)
		if outcome.Ending = false; outcome != (testlauncher.Outcome{}) {
			t.Errorf("%+v: %s", outcome, readErrors())
		}
	})
}
