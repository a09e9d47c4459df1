package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newTree makes a root with the short lists and the files that hold regions.
func newTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "spec"), os.DirFS("testdata/spec")); err != nil {
		t.Fatal(err)
	}
	put(t, root, "libnearcall/include/nearcall.h", "before\n"+cRegion.begin+"\nold\n"+cRegion.end+"\nafter\n")
	for _, name := range []string{"spec/errors.md", "spec/limits.md"} {
		put(t, root, name, "# Title\n\n"+markdownRegion.begin+"\n"+markdownRegion.end+"\n")
	}
	return root
}

func put(t *testing.T, root, path, text string) {
	t.Helper()
	if err := write(filepath.Join(root, path), text); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, root, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func generate(t *testing.T, root string) {
	t.Helper()
	var out strings.Builder
	if err := run(root, false, &out); err != nil {
		t.Fatal(err)
	}
}

func TestEveryLanguageHasEveryName(t *testing.T) {
	root := newTree(t)
	generate(t, root)
	for path, wants := range map[string][]string{
		"status/codes_gen.go":                 {"NotFound Code = 1", `NotFound: "NOT_FOUND"`, "OutcomeNone Outcome = 0"},
		"internal/wire/limits_gen.go":         {"FrameBytesMax        = 4096", "FrameBytesMaxCeiling = 65536", "PingBytesMax = 64"},
		"libnearcall/src/base/limits_gen.h":   {"#define NC_FRAME_BYTES_MAX 4096", "#define NC_FRAME_BYTES_MAX_CEILING 65536"},
		"bindings/perl/limits_gen.h":          {"#define NC_FRAME_BYTES_MAX_CEILING 65536"},
		"libnearcall/src/base/errors_gen.c":   {`{1, "NOT_FOUND", "it does not exist"}`, `{100, "AGAIN",`},
		"libnearcall/include/nearcall.h":      {"NEARCALL_E_NOT_FOUND = -1,", "NEARCALL_E_AGAIN = -100 ", "NEARCALL_OUTCOME_NONE = 0 "},
		"bindings/perl/lib/Nearcall/Codes.pm": {"NOT_FOUND    => 1,", "1 => 'NOT_FOUND'", "=item OUTCOME_NONE (0)"},
		"bindings/python/nearcall/_codes.py":  {"    NOT_FOUND = 1\n", `Outcome.NONE: "none"`},
		"spec/errors.md":                      {"| 1 | `NOT_FOUND` | it does not exist |"},
		"spec/limits.md":                      {"| `frame_bytes_max` | 4,096 | 65,536 | bytes |", "| `ping_bytes_max` | 64 | fixed |"},
	} {
		text := get(t, root, path)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, text)
			}
		}
	}
}

func TestOnlyTheRegionIsReplaced(t *testing.T) {
	root := newTree(t)
	generate(t, root)
	text := get(t, root, "libnearcall/include/nearcall.h")
	if !strings.HasPrefix(text, "before\n") || !strings.HasSuffix(text, "\nafter\n") || strings.Contains(text, "old") {
		t.Errorf("got:\n%s", text)
	}
}

func TestMissingMarkerIsAnError(t *testing.T) {
	for _, text := range []string{"", cRegion.begin + "\n", cRegion.end + "\n" + cRegion.begin + "\n",
		strings.Repeat(cRegion.begin+"\n"+cRegion.end+"\n", 2)} {
		root := newTree(t)
		put(t, root, "libnearcall/include/nearcall.h", text)
		err := run(root, false, &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), "nearcall.h: ") {
			t.Errorf("header %q: got %v", text, err)
		}
	}
}

func TestCheckFindsWhatIsStale(t *testing.T) {
	root := newTree(t)
	generate(t, root)
	if err := run(root, true, &strings.Builder{}); err != nil {
		t.Errorf("freshly generated: %v", err)
	}
	for _, path := range []string{"status/codes_gen.go", "libnearcall/include/nearcall.h", "spec/limits.md"} {
		current := get(t, root, path)
		stale := strings.Replace(strings.Replace(current, "NOT_FOUND", "LOST", 1), "4,096", "4,095", 1)
		put(t, root, path, stale)
		var out strings.Builder
		err := run(root, true, &out)
		if err == nil || !strings.Contains(err.Error(), "stale: "+path+";") {
			t.Errorf("%s: got %v", path, err)
		}
		if !strings.Contains(out.String(), "--- "+path+" (checked in)") {
			t.Errorf("%s: no readable difference:\n%s", path, out.String())
		}
		if get(t, root, path) != stale {
			t.Errorf("%s: -check wrote it", path)
		}
		put(t, root, path, current)
	}
}

func TestBrokenListsAreRefused(t *testing.T) {
	_, err := load("testdata/broken")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"code NOT_FOUND has number 2; the next one is 1",
		"code OK appears twice",
		`name "Mixed" is not of the form UPPER_CASE`,
		"code SILENT has no meaning",
		"outcome NONE has no text",
		"local code AGAIN has number 99; the next one is 100",
		"frame_bytes_max: maximum 9 is below the default 10",
		`name "Frame" is not of the form lower_case`,
		"none: default 0 is not positive",
		"mute needs a unit, a meaning and a reason",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

func TestMisspeltFieldIsRefused(t *testing.T) {
	root := newTree(t)
	put(t, root, "spec/limits.json", `{"limits": [{"name": "a", "maximun": 1}]}`)
	if err := run(root, false, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "maximun") {
		t.Errorf("got %v", err)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{"OK": "OK", "DEADLINE_EXCEEDED": "DeadlineExceeded", "frame_bytes_max": "FrameBytesMax"} {
		if got := camelCase(name); got != want {
			t.Errorf("camelCase(%q) = %q; want %q", name, got, want)
		}
	}
}
