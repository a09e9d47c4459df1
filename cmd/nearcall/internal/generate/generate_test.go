package generate_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/generate"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/nearcalltest"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// root is the repository's.
func root(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../../..")
	must(t, err)
	return path
}

// built returns a file that another target of make builds.
func built(t *testing.T, path, target string) string {
	t.Helper()
	full := filepath.Join(root(t), "build", path)
	if _, err := os.Stat(full); err != nil {
		t.Fatalf("%v; 'make %s' builds it", err, target)
	}
	return full
}

// serve serves functions to programs in all languages, and returns the address and their
// schema.
func serve(t *testing.T, register func(*server.Server)) (string, *schema.Document) {
	t.Helper()
	registered := func(s *server.Server) error { register(s); return nil } // Serve tells what failed
	address := nearcalltest.Serve(t, registered, server.WithLogger(slog.New(slog.DiscardHandler)), server.WithFileDescriptors(nil))
	c, err := client.New(address)
	must(t, err)
	defer c.Close()
	exported, err := c.Schema(t.Context())
	must(t, err)
	document, err := schema.ParseDocument(exported.JSON())
	must(t, err)
	return address, document
}

// A Node contains itself in every way a struct can.
type Node struct {
	Label    string           `nearcall:"label"`
	Next     *Node            `nearcall:"next"`
	Children []Node           `nearcall:"children"`
	Named    map[string]Node  `nearcall:"named"`
	Scores   map[int32][]byte `nearcall:"scores"`
	Odd      Odd              `nearcall:"odd"`
}

// Odd has names that are no identifiers.
type Odd struct {
	Space   int64         `nearcall:"a field"`
	Keyword uint16        `nearcall:"class"`
	Wait    time.Duration `nearcall:"while"`
	Quote   *time.Time    `nearcall:"quote\"d"`
}

type Empty struct{}

// hostile has names and documentation that would leave their place.
func hostile(s *server.Server) {
	demo.Register(s)
	doc := server.Doc("Ends */ comments, /* begins \"\"\" others\\, and\n=cut\n\n=head1 has E<lt> <commands>\n`x` %s {{.Name}} \\")
	s.Register("tree.depth", depth, doc, server.Params("root"))
	s.Register("tree.same", func(root Node) Node { return root }, doc, server.Params("for"))
	s.Register("tree_same", func(any) []*Odd { return nil }, doc, server.Params("class"))
	s.Register("new", func(int64, int64) (int64, string, []Spot) { return 1, "two", []Spot{{3}} }, doc, server.Params("self", "timeout"))
	s.Register("class", func(string, ...Spot) bool { return true }, doc, server.Params("timeout_ms", "ret"))
	s.Register("text", func(*Empty, []map[string][]float32) (a, b, c, d, e int8) { return 1, 2, 3, 4, 5 }, doc, server.Params("r", "i"))
	s.Register("it's", func() {}, doc)
	s.Register("pair", func(a, b int64) (int64, int64) { return a, b }, doc, server.Params("sendings", "several"))
	s.Register("COMPARES", func(duration) {}, doc, server.Params("INT_MAX"))
	s.Register("GOES_ON", func(signed, int64) int64 { return 1 }, doc, server.Params("not_faked", "none1"))
	s.Register("signed", func(int64, int64, int64) {}, doc, server.Params("linux", "errno", "NULL"))
	s.Register("file", passFiles, doc, server.Params("os", "net", "socket"))
}

// passFiles has files in all places, and returns them.
func passFiles(one *os.File, many []*os.File, tcp **net.TCPConn) (*os.File, []*os.File, **net.TCPConn) {
	return one, many, tcp
}

// duration and signed are what the generated C has functions for.
type (
	duration struct {
		Seconds int64 `nearcall:"NULL"`
	}
	signed struct {
		Number int64 `nearcall:"errno"`
	}
)

// A Spot has a field of one byte.
type Spot struct {
	X uint8 `nearcall:"x"`
}

func depth(root Node) int64 {
	deepest := int64(0)
	for _, child := range root.Children {
		deepest = max(deepest, depth(child))
	}
	if root.Next != nil {
		deepest = max(deepest, depth(*root.Next))
	}
	return deepest + 1
}

// program runs a command that must succeed and print "ok".
func program(t *testing.T, environment []string, name string, args ...string) {
	t.Helper()
	if out := output(t, environment, name, args...); !strings.HasSuffix(out, "ok\n") {
		t.Fatalf("%s printed\n%s", name, out)
	}
}

func output(t *testing.T, environment []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// write puts the generated module into a directory of its own.
func write(t *testing.T, language string, document *schema.Document, name, file string) (directory string) {
	t.Helper()
	text, err := generate.Generate(language, document, name)
	must(t, err)
	directory = t.TempDir()
	must(t, os.MkdirAll(filepath.Dir(filepath.Join(directory, file)), 0o700))
	must(t, os.WriteFile(filepath.Join(directory, file), text, 0o600))
	return directory
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, text, 0o600))
}

func TestC(t *testing.T) {
	library := filepath.Dir(built(t, "lib/libnearcall.a", "build-c"))
	include := filepath.Join(root(t), "libnearcall", "include")
	compile := func(directory string, args ...string) {
		output(t, nil, "gcc", append([]string{"-std=c11", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-g",
			"-fsanitize=address,undefined", "-I" + include, "-I" + directory}, args...)...)
	}
	address, document := serve(t, demo.Register)
	directory := write(t, "c", document, "demo", "demo.h")
	binary := filepath.Join(directory, "demo")
	compile(directory, "-o", binary, "testdata/demo.c", filepath.Join(library, "libnearcall.a"))
	program(t, nil, binary, address)

	address, document = serve(t, hostile)
	directory = write(t, "c", document, "odd", "odd.h")
	binary = filepath.Join(directory, "odd")
	compile(directory, "-o", binary, "testdata/odd.c", filepath.Join(library, "libnearcall.a"))
	program(t, nil, binary, address)
}

func TestPerl(t *testing.T) {
	blib := filepath.Join(root(t), "build", "perl", "blib")
	built(t, "perl/blib/arch/auto/Nearcall/Nearcall.so", "build-perl")
	run := func(register func(*server.Server), module, script string) {
		address, document := serve(t, register)
		directory := write(t, "perl", document, module, module+".pm")
		output(t, nil, "podchecker", "-warnings", filepath.Join(directory, module+".pm"))
		program(t, nil, "/usr/bin/perl", "-w", "-I"+directory, "-I"+blib+"/lib", "-I"+blib+"/arch", script, address)
	}
	run(demo.Register, "Demo", "testdata/demo.pl")
	run(hostile, "Odd", "testdata/odd.pl")
}

func TestPython(t *testing.T) {
	python := built(t, "venv/bin/python", "build-python")
	run := func(register func(*server.Server), module string) {
		address, document := serve(t, register)
		directory := write(t, "python", document, module, module+".py")
		script := filepath.Join(directory, "main.py")
		copyFile(t, "testdata/"+module+".py", script)
		environment := []string{"PYTHONPATH=" + directory, "PYTHONDONTWRITEBYTECODE=1", "MYPYPATH=" + directory}
		program(t, environment, python, script, address)
		output(t, environment, python, "-m", "mypy", "--strict", "--cache-dir="+filepath.Join(directory, "cache"), script)
		checkWithPyright(t, directory)
	}
	run(demo.Register, "demo")
	run(hostile, "odd")
	_, document := serve(t, before)
	checkWithPyright(t, write(t, "python", document, "plain", "plain.py")) // without structs
}

// What the runtime takes, checkers do, and they find what it refuses, but for what their types cannot tell.
func TestPythonTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("it installs the software of others")
	}
	python := built(t, "venv/bin/python", "build-python")
	output(t, nil, filepath.Join(root(t), "tools", "python-foreign"))
	address, document := serve(t, demo.Register)
	directory := write(t, "python", document, "demo", "demo.py")
	environment := []string{"PYTHONPATH=" + directory, "PYTHONDONTWRITEBYTECODE=1", "MYPYPATH=" + directory}
	mypy := []string{"-m", "mypy", "--strict", "--cache-dir=" + filepath.Join(directory, "cache")}
	taken := filepath.Join(directory, "main.py")
	copyFile(t, "testdata/taken.py", taken)
	program(t, environment, python, taken, address)
	output(t, environment, python, append(mypy, taken)...)
	checkWithPyright(t, directory)
	checkWrongLines(t, environment, python, append(mypy, "testdata/wrong.py"))
}

// checkWrongLines runs mypy, which is to find each line that is marked, and no other.
func checkWrongLines(t *testing.T, environment []string, python string, mypy []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, mypy...)
	cmd.Env = append(os.Environ(), environment...)
	out, _ := cmd.CombinedOutput() // it fails, since it finds mistakes
	text, err := os.ReadFile("testdata/wrong.py")
	must(t, err)
	for i, line := range strings.Split(string(text), "\n") {
		found := strings.Contains(string(out), fmt.Sprintf("wrong.py:%d: error", i+1))
		if found != strings.Contains(line, "# wrong") {
			t.Errorf("line %d, %s: found is %v\n%s", i+1, line, found, out)
		}
	}
}

// What mypy infers and what pyright does differs, above all in what they take for a mistake.
func checkWithPyright(t *testing.T, directory string) {
	t.Helper()
	if testing.Short() {
		return
	}
	pyright := built(t, "venv-pyright/bin/basedpyright", "test-command")
	must(t, os.WriteFile(filepath.Join(directory, "pyrightconfig.json"), []byte(`{"typeCheckingMode": "strict"}`), 0o600))
	output(t, nil, pyright, "--pythonpath", filepath.Join(root(t), "build", "venv", "bin", "python"), "--project", directory)
}

// goModule makes a module of a directory, as a user's program is one, and returns the
// environment in which to build it.
func goModule(t *testing.T, directory string) (environment []string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(directory, "go.mod"), []byte("module example\n\ngo 1.26.0\n\n"+
		"require github.com/nearcall/nearcall v0.0.0\n\nreplace github.com/nearcall/nearcall => "+root(t)+"\n"), 0o600))
	copyFile(t, filepath.Join(root(t), "go.sum"), filepath.Join(directory, "go.sum"))
	return []string{"GOFLAGS=" + os.Getenv("GOFLAGS") + " -mod=mod", "GOWORK=off"}
}

// A program of its own module, as a user's is.
func TestGo(t *testing.T) {
	run := func(register func(*server.Server), module string) {
		address, document := serve(t, register)
		directory := write(t, "go", document, module, module+"/"+module+".go")
		copyFile(t, "testdata/"+module+".go.txt", filepath.Join(directory, "main.go"))
		environment := goModule(t, directory)
		output(t, environment, "go", "vet", "-C", directory, "./...")
		program(t, environment, "go", "run", "-C", directory, ".", address)
	}
	run(demo.Register, "demo")
	run(hostile, "odd")
}

// What the types do not tell, such as the order of parameters, code for Go is compared
// by: each function that has arguments to encode says what it was generated from.
func TestGoSaysWhatItWasGeneratedFrom(t *testing.T) {
	_, document := serve(t, hostile)
	text, err := generate.Generate("go", document, "odd")
	must(t, err)
	for _, f := range document.Functions {
		if said := bytes.Contains(text, []byte(f.Hash)); said == f.Raw {
			t.Errorf("%s: raw %v, says its hash %v", f.Name, f.Raw, said)
		}
	}
	if count := bytes.Count(text, []byte("client.GeneratedFrom(")); count == 0 {
		t.Error("no function is compared")
	}
}

// The same schema gives the same text.
func TestGeneratedTextIsStable(t *testing.T) {
	_, document := serve(t, hostile)
	for _, language := range generate.Languages() {
		first, err := generate.Generate(language, document, "odd")
		must(t, err)
		for range 5 {
			again, err := generate.Generate(language, document, "odd")
			must(t, err)
			if !bytes.Equal(first, again) {
				t.Fatalf("%s: another text", language)
			}
		}
	}
}

func TestNamesThatAreRefused(t *testing.T) {
	_, document := serve(t, demo.Register)
	for _, language := range generate.Languages() {
		for _, name := range []string{"", "1x", "a-b", "a b", "a;b", "../a", "a\nb"} {
			if _, err := generate.Generate(language, document, name); err == nil {
				t.Errorf("%s: --package %q is accepted", language, name)
			}
		}
	}
}
