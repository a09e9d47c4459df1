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
		"libnearcall/src/wire.c: includes <sys/socket.h> by way of libnearcall/src/handle.h",
		"libnearcall/src/wire.h: includes <sys/socket.h> by way of libnearcall/src/handle.h",
		"bindings/perl/Nearcall.xs: includes handle.h;",
		"bindings/python/module.c: includes ../../libnearcall/src/wire.c;",
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

func TestTreeThatGitDoesNotKnowIsAnError(t *testing.T) {
	if problems, err := Check(t.TempDir()); err == nil {
		t.Errorf("got %q and no error", problems)
	}
}
