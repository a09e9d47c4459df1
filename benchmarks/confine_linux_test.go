package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// confined starts a process as a confinement wants it and returns one line of a file
// in /proc/self that the process reads.
func confined(t *testing.T, prefix []string, file, key string) string {
	t.Helper()
	script := fmt.Sprintf(`printf 'ready '; grep -m 1 '%s' /proc/self/%s; read -r`, key, file)
	command := append(prefix[:len(prefix):len(prefix)], "bash", "-c", script)
	p, err := process.Start(command...)
	check(t, err)
	defer p.Stop()
	return p.Said
}

func TestOneCPUIsOne(t *testing.T) {
	prefix, leave, err := onOneCPU{}.enter()
	check(t, err)
	_, list, _ := strings.Cut(confined(t, prefix, "status", "Cpus_allowed_list"), ":")
	if list = strings.TrimSpace(list); list == "" || strings.ContainsAny(list, ",-") {
		t.Errorf("it may use the CPUs %q", list)
	}
	if err := leave(); err != nil {
		t.Error(err)
	}
}

// Where no group can be made, that is said and nothing stays.
func TestQuotaIsThatOfAGroupOfItsOwn(t *testing.T) {
	q := new(quotaGroup)
	prefix, leave, err := q.enter()
	if err != nil && !errors.Is(err, errNotHere) {
		t.Fatal(err)
	}
	if err == nil {
		if in := confined(t, prefix, "cgroup", "nearcall-bench-"); !strings.Contains(in, fmt.Sprintf("nearcall-bench-%d", os.Getpid())) {
			t.Errorf("it is in %q", in)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(q.folder); q.folder != "" && !os.IsNotExist(err) {
		t.Errorf("the group stays: %v", err)
	}
}

func TestRowsTellWhereTheyWereHeld(t *testing.T) {
	t.Setenv(asCaller, "1")
	own := fakeRow(t, "own", "")
	own.pinning = "by itself"
	g := group{name: "held", rows: []rowPlan{fakeRow(t, "its group's", ""), own}, confined: onOneCPU{}}
	p := pace{rounds: 1, length: time.Millisecond, warmUp: time.Millisecond}
	rows, err := tools{}.runGroup(t.Context(), g, t.TempDir(), p, newProgress(discard(t), time.Second))
	check(t, err)
	for i, want := range []string{onOneCPU{}.pinning(), "by itself"} {
		if row := rows[i].reduced(); row.Failed != "" || row.Pinning != want {
			t.Errorf("%s: held %q, failed %q", row.Name, row.Pinning, row.Failed)
		}
	}
}
