package resident_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/request"
	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// Residents are killed at random: each run does its work once and says how it ended.
func TestRunsWhileResidentsAreKilled(t *testing.T) {
	const runners, runs = 4, 60
	for _, mode := range []string{"pool", "serial"} {
		t.Run(mode, func(t *testing.T) {
			path := program(t, mode)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			done := make(chan struct{}, runners*runs)
			kills := make(chan int)
			go func() { kills <- killResidents(t, path, rand.New(rand.NewPCG(seed, 0)), done) }()
			file := filepath.Join(t.TempDir(), "done")
			var group sync.WaitGroup
			for runner := range runners {
				group.Go(func() {
					for i := range runs {
						check(t, path, file, fmt.Sprintf("%d-%d", runner, i))
						done <- struct{}{}
					}
				})
			}
			group.Wait()
			close(done)
			if n := <-kills; n == 0 {
				t.Error("no resident was killed")
			}
		})
	}
}

// check runs a program that does something once.
func check(t *testing.T, path, file, name string) {
	t.Helper()
	made := file + name
	want := "done " + name + "\n"
	l := testlauncher.Launch{Program: path, Args: []string{"once", made, name}, Env: os.Environ()}
	for {
		output := collect(t, &l.Files[1])
		outcome, err := l.Run()
		got := output()
		if err != nil {
			// Twice nothing was done: a launcher would run it plainly.
			if _, err := os.Stat(made); err == nil || got != "" {
				t.Errorf("%s was run, and is to be run again", name)
			}
			continue
		}
		if outcome.Ending = false; got != want || outcome != (testlauncher.Outcome{Code: 7}) {
			t.Errorf("%s: %q, %+v", name, got, outcome)
		}
		return
	}
}

// killResidents kills after some runs, a moment later: residents that are killed while
// they start do nothing, however often.
func killResidents(t *testing.T, path string, random *rand.Rand, done chan struct{}) (kills int) {
	for {
		for range 1 + random.IntN(10) {
			if _, more := <-done; !more {
				return kills
			}
		}
		time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
		if r, err := ask(placeOf(t, path), request.Status); err == nil && unix.Kill(r.ProcessID, unix.SIGKILL) == nil {
			kills++
		}
	}
}
