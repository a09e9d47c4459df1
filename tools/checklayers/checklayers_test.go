package main

import (
	"slices"
	"strings"
	"testing"
)

func TestSoundTreeHasNoProblems(t *testing.T) {
	problems, err := Check("testdata/sound")
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) != 0 {
		t.Errorf("problems in a sound tree:\n%s", strings.Join(problems, "\n"))
	}
}

// Each break in testdata/broken is found, and nothing else is.
func TestEveryBreakIsFound(t *testing.T) {
	want := []string{
		"go.mod: requires example.org/heavy;",
		"root.go: the root holds no code",
		": has no place in",
		"internal/wire: imports github.com/tinylib/msgp/msgp,",
		"internal/transport/unixsocket: imports github.com/nearcall/nearcall/server,",
		"internal/novel: has no place in",
		"internal/utils: has no place in",
		`internal/utils/utils.go: "utils" says nothing`,
		`internal/utils/utils.go: "utils.go" says nothing`,
		// What is below internal/transport is the server's, but for what has arrows.
		"server: imports github.com/nearcall/nearcall/internal/transport/eventloop,",
		"server/memory.go: imports unsafe;",
		"internal/peercred/peercred.go: imports golang.org/x/sys;",
		"server/fast.c: lies beside Go files",
		"client: imports github.com/nearcall/nearcall/server,",
		"examples/hello: imports github.com/nearcall/nearcall/internal/wire,",
		"examples/hello: its tests import github.com/nearcall/nearcall/internal/novel;",
		"example.org/stranger: a module of this repository must be named",
		"libnearcall/src/wire/wire.c: includes <sys/socket.h> by way of libnearcall/src/handle/handle.h",
		"libnearcall/src/wire/wire.h: includes <sys/socket.h> by way of libnearcall/src/handle/handle.h",
		"libnearcall/src/lone.c: files of libnearcall lie in folders of src",
		"libnearcall/src/silent: has no silent.h,",
		"libnearcall/src/mute/mute.h: its first comment does not end",
		"libnearcall/src/calls/calls.c: includes calls.h; headers of libnearcall are named with their folder",
		`libnearcall/src/calls/calls.h: may include "nobody", which is no other folder`,
		"libnearcall/src/calls/calls.h: says that it may include wire, and nothing there does",
		"libnearcall/src/wire/wire.h: includes handle/handle.h, which libnearcall/src/wire/wire.h does not allow",
		"libnearcall/src: folders may not include each other in a circle: calls -> handle -> calls",
		"bindings/perl/Nearcall.xs: includes handle.h;",
		"bindings/python/module.c: includes ../../libnearcall/src/wire/wire.c;",
	}
	problems, err := Check("testdata/broken")
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		i := slices.IndexFunc(want, func(prefix string) bool { return strings.HasPrefix(problem, prefix) })
		if i < 0 {
			t.Errorf("not expected: %s", problem)
			continue
		}
		want = slices.Delete(want, i, i+1)
	}
	for _, prefix := range want {
		t.Errorf("not found: %s", prefix)
	}
}

// An arrow that points up is found in the table itself, whatever packages import.
func TestInternalMayImportNothingAbove(t *testing.T) {
	found := upward([]layer{
		{"internal/codec", []string{"status", "intercept", "internal/wire", messagePack, anything}},
		{"internal/demo", []string{"status", "server"}},
		{"internal/testgiver", []string{"handoff", systemCalls}},
		{"server", []string{"client"}},
	})
	want := []string{"internal/demo may import server,", "internal/testgiver may import handoff,"}
	if len(found) != len(want) {
		t.Fatalf("found %q", found)
	}
	for i, problem := range found {
		if !strings.Contains(problem, want[i]) {
			t.Errorf("got %q, want %q in it", problem, want[i])
		}
	}
}

func TestTreeThatGitDoesNotKnowIsAnError(t *testing.T) {
	if problems, err := Check(t.TempDir()); err == nil {
		t.Errorf("got %q and no error", problems)
	}
}
