package examples_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// A residence is where the residents of one test are.
type residence struct {
	folder      string
	environment []string
}

// newResidence is for the programs of resident/prepare. Its residents have left when the
// test ends.
func newResidence(t *testing.T) *residence {
	t.Helper()
	// Not t.TempDir(), whose path may be too long for a socket.
	folder, err := os.MkdirTemp("", "nearcall-")
	if err != nil {
		t.Fatal(err)
	}
	library, programs := built(t, "perl/blib"), filepath.Dir(built(t, "examples/resident/programs/page"))
	r := &residence{folder: folder, environment: []string{
		"XDG_RUNTIME_DIR=" + folder,
		"PERL5LIB=" + filepath.Join(library, "lib") + ":" + filepath.Join(library, "arch"),
		"PATH=" + strings.Join([]string{filepath.Join(programs, "../bin"), programs, built(t, "bin"), os.Getenv("PATH")}, ":"),
	}}
	t.Cleanup(func() {
		r.run(t, "", "nearcall", "resident", "stop")
		await(t, "the residents leave", func() bool { return len(r.sockets(t)) == 0 })
		if t.Failed() {
			t.Log(r.run(t, "", "nearcall", "resident", "log").out)
		}
		os.RemoveAll(folder)
	})
	return r
}

func (r *residence) sockets(t *testing.T) []string {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(r.folder, "nearcall-resident", "*.sock"))
	if err != nil {
		t.Fatal(err)
	}
	return sockets
}

// An ending is what a run of a program printed, and its exit code.
type ending struct {
	out, err string
	code     int
}

// command is found in the residence's PATH, and runs in the folder of the example.
func (r *residence) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "/usr/bin/env", append([]string{name}, args...)...)
	command.Dir = "resident"
	command.Env = append(os.Environ(), r.environment...)
	return command
}

func (r *residence) run(t *testing.T, input string, name string, args ...string) ending {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	command := r.command(ctx, name, args...)
	var out, failures bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &failures
	var exit *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: %v", name, err)
	}
	return ending{out.String(), failures.String(), command.ProcessState.ExitCode()}
}

// A resident program prints what it prints plainly, and ends with the same code.
func TestResidentPrograms(t *testing.T) {
	r := newResidence(t)
	runs := []struct {
		input   string
		command []string
		code    int
		want    string
	}{
		{"", []string{"page", "list", "notes"}, 0, "The Analytical Engine  32 words"},
		{"", []string{"page", "html", "notes/engine.md"}, 0, "<title>The Analytical Engine</title>"},
		{"# From a pipe", []string{"page", "html"}, 0, "<h1>From a pipe</h1>"},
		{"", []string{"page", "read", "notes/compiler.md"}, 0, "| 1959 | COBOL |"},
		{"", []string{"page", "html", "none.md"}, 1, "none.md: no such file"},
		{"", []string{"page", "--help"}, 0, "Available Commands"},
		{"", []string{"timesheet", "hours.csv"}, 0, "ada           17.75 h on 3 days"},
		{"ada,2026-01-05,1\n", []string{"timesheet", "--by=week"}, 0, "2026-W02       1.00 h on 1 days"},
		{"", []string{"timesheet", "--by=year"}, 255, "timesheet [--by=person|week]"},
		{"", []string{"timesheet", "none.csv"}, 2, "none.csv: No such file"},
		{"", []string{"catalogue", "get", "/books/2"}, 0, `"author":"Hopper"`},
		{"", []string{"catalogue", "get", "/books/9"}, 1, "there is no book 9"},
		{"", []string{"catalogue"}, 2, "the following arguments are required: command"},
	}
	for _, run := range runs {
		name, args := run.command[0], run.command[1:]
		plain := r.run(t, run.input, name, append([]string{"--no-resident"}, args...)...)
		if plain.code != run.code || !strings.Contains(plain.out+plain.err, run.want) {
			t.Errorf("%v plainly: code %d, %s%s; want %d, %q", run.command, plain.code, plain.out, plain.err, run.code, run.want)
		}
		for range 3 {
			if got := r.run(t, run.input, name, args...); got != plain {
				t.Errorf("%v is %+v, and %+v plainly", run.command, got, plain)
			}
		}
	}
	list := r.run(t, "", "nearcall", "resident", "list").out
	for program, want := range map[string]string{"page": "concurrent +18", "timesheet": "pool +12", "catalogue": "pool +9"} {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^%s +running +\d+ +%s +0 `, program, want)).MatchString(list) {
			t.Errorf("%s: the list is not %q:\n%s", program, want, list)
		}
	}
}

// What one caller says, another at the same time does not get.
func TestResidentCallersAtOnce(t *testing.T) {
	r := newResidence(t)
	var callers sync.WaitGroup
	for i := range 40 {
		callers.Go(func() {
			language := fmt.Sprint("x-", i)
			folder := t.TempDir()
			ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
			defer cancel()
			if err := os.WriteFile(filepath.Join(folder, "page.yaml"), []byte("language: "+language+"\n"), 0o600); err != nil {
				t.Error(err)
			}
			command := r.command(ctx, "page", "html")
			command.Dir, command.Stdin = folder, strings.NewReader("# "+language)
			command.Env = append(command.Env, "PAGE_STYLE=monokai")
			out, err := command.Output()
			if text := string(out); err != nil || !strings.Contains(text, `<html lang="`+language+`">`) || !strings.Contains(text, "<h1>"+language+"</h1>") {
				t.Errorf("caller %d got %v, %s", i, err, text)
			}
		})
	}
	callers.Wait()
	if sockets := r.sockets(t); len(sockets) != 1 {
		t.Errorf("there are %v", sockets)
	}
}

// What the example runs is printed, and nothing stays.
func TestResidentRun(t *testing.T) {
	out := output(t, nil, "resident/run")
	for _, want := range []string{"compiler.md  A compiler", "2026-W03      11.25 h", "<cite>The Education of a Computer</cite>",
		"page       running", "timesheet  running", "catalogue  running", "<p><em>Hello</em></p>", `"requestId":1,"wasCancelled":false`, `"exitCode":1,"output":"Error: open `} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
	if times := regexp.MustCompile(`20 runs plainly: \d+ ms, resident: \d+ ms`).FindAllString(out, -1); len(times) != 3 {
		t.Errorf("it prints the times %q", times)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "nearcall-resident.*", "*", "*.sock"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v, it leaves %v", err, left)
	}
}

// A program that was replaced is run in its new version, and the old one is gone.
func TestResidentUpgrade(t *testing.T) {
	r := newResidence(t)
	program := filepath.Join(r.folder, "timesheet")
	install := func(change ...string) {
		text, err := os.ReadFile("resident/timesheet.pl")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program+".new", []byte(strings.NewReplacer(change...).Replace(string(text))), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(program+".new", program); err != nil {
			t.Fatal(err)
		}
	}
	install()
	r.run(t, "", "nearcall-run", program, "hours.csv")
	before := r.sockets(t)
	install("%] days", "%] days!")
	if got := r.run(t, "", "nearcall-run", program, "hours.csv"); !strings.Contains(got.out, "3 days!") {
		t.Errorf("after the upgrade it prints %+v", got)
	}
	await(t, "the old version leaves", func() bool {
		now := r.sockets(t)
		return len(now) == 1 && len(before) == 1 && now[0] != before[0]
	})
}
