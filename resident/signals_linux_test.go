package resident_test

import (
	"syscall"
	"testing"

	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// A signal ends the context of a run that uses it, once; and a run that does not.
func TestSignalsEndRuns(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			b := begin(t, testlauncher.Launch{Program: path, Args: []string{"wait"}})
			b.line()
			b.signal(s)
			if got, want := b.line(), "nearcall: signal: "+s.String(); got != want {
				t.Errorf("the cause is %q, want %q", got, want)
			}
			expect(t, withoutEnding(b.wait()), testlauncher.Outcome{Code: 4})

			b = begin(t, testlauncher.Launch{Program: path, Args: []string{"wait", "twice"}})
			b.line()
			b.signal(s)
			b.line()
			b.signal(s)
			expect(t, b.wait(), testlauncher.Outcome{Signal: s})

			b = begin(t, testlauncher.Launch{Program: path, Args: []string{"ignore"}})
			b.line()
			b.signal(s)
			expect(t, b.wait(), testlauncher.Outcome{Signal: s})
		}
	})
}

func withoutEnding(o testlauncher.Outcome) testlauncher.Outcome {
	o.Ending = false
	return o
}

// A program that asks for signals gets them, and they have no other effect.
func TestSignalsAreReceived(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		b := begin(t, testlauncher.Launch{Program: path, Args: []string{"signals"}})
		b.line()
		for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGWINCH, syscall.SIGUSR2, syscall.SIGTERM} {
			b.signal(s)
			if got := b.line(); got != s.String() {
				t.Errorf("it received %q, want %q", got, s)
			}
		}
		expect(t, withoutEnding(b.wait()), testlauncher.Outcome{Code: 6})
		// The next run of the same process does not know them.
		b = begin(t, testlauncher.Launch{Program: path, Args: []string{"ignore"}})
		b.line()
		b.signal(syscall.SIGUSR1) // nothing to a program of Go
		b.signal(syscall.SIGQUIT) // ends one, with traces
		expect(t, b.wait(), testlauncher.Outcome{Code: 2})
	})
}

// WINCH and CONT end nothing.
func TestHarmlessSignals(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		b := begin(t, testlauncher.Launch{Program: path, Args: []string{"wait"}})
		b.line()
		for _, s := range []syscall.Signal{syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTERM} {
			b.signal(s)
		}
		if got := b.line(); got != "nearcall: signal: terminated" {
			t.Errorf("the cause is %q", got)
		}
		expect(t, withoutEnding(b.wait()), testlauncher.Outcome{Code: 4})
	})
}

// A run whose caller is gone hears of it, or ends.
func TestCallerGone(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		b := begin(t, testlauncher.Launch{Program: path, Args: []string{"wait"}})
		b.line()
		must(t, b.Conn.Close())
		if got := b.line(); got != "nearcall: the caller is gone" {
			t.Errorf("the cause is %q", got)
		}
		b = begin(t, testlauncher.Launch{Program: path, Args: []string{"ignore"}})
		b.line()
		must(t, b.Conn.Close())
		await(t, "the end of the run", func() bool { return status(t, path).Running == 0 })
	})
}

// The caller's side runs what the program wants run there.
func TestExecute(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		for status, want := range map[syscall.WaitStatus]string{0: "0 <nil>", 3 << 8: "3 <nil>", 9: "137 <nil>"} {
			b := begin(t, testlauncher.Launch{Program: path, Args: []string{"execute", "editor", "a file"}})
			var asked []string
			b.OnExecute(func(arguments []string) syscall.WaitStatus {
				asked = arguments
				return status
			})
			expect(t, withoutEnding(b.wait()), testlauncher.Outcome{})
			if got := b.line(); got != want || len(asked) != 2 || asked[0] != "editor" || asked[1] != "a file" {
				t.Errorf("status %#x: %q, want %q; asked for %q", status, got, want, asked)
			}
		}
	})
}
