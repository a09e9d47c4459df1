package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/resident/inspect"
)

// buildResident makes the launcher and a program that waits in a pool, below root as
// benchmarks/run does.
func buildResident(t *testing.T, root string) (launcher, program string) {
	t.Helper()
	program = filepath.Join(root, "build/benchmarks/empty-pool")
	for _, command := range [][]string{
		{"make", "--silent", "-C", "../resident/launcher", "BUILD=" + filepath.Join(root, "build")},
		{"go", "build", "-o", program, "./commands/empty"},
	} {
		if _, err := process.Output(nil, command...); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "build/bin/nearcall-run"), program
}

func stopResidentIn(t *testing.T, folder string) {
	sockets, err := residence{folder: folder}.sockets("*")
	if err != nil || len(sockets) != 1 {
		t.Fatalf("residents listen at %v, %v", sockets, err)
	}
	if _, err := (inspect.Place{Socket: sockets[0]}).Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestResidentIsCounted(t *testing.T) {
	root := t.TempDir()
	launcher, program := buildResident(t, root)
	// The path of a socket is short, that of a test's folder need not be.
	folder, err := os.MkdirTemp("", "resident-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	s := &scene{tools: tools{root: root}, folder: folder}
	check(t, os.Mkdir(s.residence().folder, 0o700))
	row := &measuredRow{plan: plan("run-go-resident-pool", 0, noServer, byRun, s.caller("c", "run"))}
	row.plan.command = s.byResident(saying(program))
	if used, err := s.serverClock(row)(); err != nil || used != nil {
		t.Errorf("before there is a resident it has used %v, %v", used, err)
	}
	run := func() {
		if text, err := process.Output(s.residence().environment(), launcher, program, said); err != nil || text != said+"\n" {
			t.Fatalf("%q, %v", text, err)
		}
	}
	run()
	t.Cleanup(func() { stopResidentIn(t, s.residence().folder) })
	clock := s.serverClock(row)
	before, err := clock()
	if err != nil || before == nil {
		t.Fatalf("a resident that has run a command used %v, %v", before, err)
	}
	for deadline := time.Now().Add(burnTimeout); ; {
		run()
		after, err := clock()
		check(t, err)
		if *spent(before, after) >= burned {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it has used %v", *spent(before, after))
		}
	}
}
