package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

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
		if text, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, text)
		}
	}
	return filepath.Join(root, "build/bin/nearcall-run"), program
}

func stopResidentIn(t *testing.T, folder string) {
	sockets, err := filepath.Glob(filepath.Join(folder, residentsFolder, "nearcall-resident", "*.sock"))
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	s := &scene{tools: tools{root: root}, folder: folder}
	environment, err := s.residents()
	if err != nil {
		t.Fatal(err)
	}
	row := &measuredRow{plan: plan("run-go-resident-pool", 0, noServer, byRun, s.c("run"))}
	row.plan.command = s.byResident(saying(program))
	if used, err := s.serverClock(row)(); err != nil || used != nil {
		t.Errorf("before there is a resident it has used %v, %v", used, err)
	}
	run := func() {
		command := exec.Command(launcher, program, said)
		command.Env = append(os.Environ(), environment)
		if text, err := command.CombinedOutput(); err != nil || string(text) != said+"\n" {
			t.Fatalf("%q, %v", text, err)
		}
	}
	run()
	t.Cleanup(func() { stopResidentIn(t, s.folder) })
	clock := s.serverClock(row)
	before, err := clock()
	if err != nil || before == nil {
		t.Fatalf("a resident that has run a command used %v, %v", before, err)
	}
	for deadline := time.Now().Add(burnTimeout); ; {
		run()
		after, err := clock()
		if err != nil {
			t.Fatal(err)
		}
		if *spent(before, after) >= burned {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it has used %v", *spent(before, after))
		}
	}
}
