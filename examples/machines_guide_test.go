package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/tests/machines/network"
)

const machinesGuide = "../docs/guides/machines.md"

var (
	// A block of the page is run on host a.
	machinesBlock = regexp.MustCompile("(?s)```sh\n(.*?)```\n")
	// A line is typed on a host, and what is printed follows it.
	machinesLine = regexp.MustCompile(`^    ([abc])\$ (.*)$`)
	eitherHost   = regexp.MustCompile(`10\.213\.0\.[23]`)
)

// A typed line of the guide, and what the page says that it prints.
type typed struct{ host, line, output string }

func machinesLines(t *testing.T) (lines []typed) {
	t.Helper()
	inside := false
	for line := range strings.Lines(content(t, machinesGuide)) {
		line = strings.TrimSuffix(line, "\n")
		if found := machinesLine.FindStringSubmatch(line); found != nil {
			lines = append(lines, typed{host: found[1], line: found[2]})
			inside = true
			continue
		}
		printed, indented := strings.CutPrefix(line, "    ")
		if inside = inside && indented; inside {
			lines[len(lines)-1].output += printed + "\n"
		}
	}
	return lines
}

// TestMachinesGuide follows the guide on three hosts.
func TestMachinesGuide(t *testing.T) {
	n, err := network.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	g := &guideHosts{t: t, folder: t.TempDir(), hosts: make(map[string]*network.Host), servers: make(map[string]*exec.Cmd)}
	for _, name := range []string{"a", "b", "c"} {
		if g.hosts[name], err = n.Join(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, block := range machinesBlock.FindAllStringSubmatch(content(t, machinesGuide), -1) {
		g.run("a", block[1])
	}
	lines := machinesLines(t)
	if len(lines) < 8 {
		t.Errorf("the guide has %d lines that are typed", len(lines))
	}
	for _, typed := range lines {
		switch {
		case typed.line == "^C":
			g.stop(typed.host)
		case strings.HasPrefix(typed.line, "nearcall demo"):
			g.serve(typed)
		default:
			// Which of two equals comes first is drawn.
			printed := g.run(typed.host, typed.line)
			if eitherHost.ReplaceAllString(printed, "HOST") != eitherHost.ReplaceAllString(typed.output, "HOST") {
				t.Errorf("%s$ %s\nprints\n%s\nand in the guide\n%s", typed.host, typed.line, printed, typed.output)
			}
		}
	}
}

// guideHosts are the hosts of the guide. All of them have one folder, so what the guide has
// copied to a host is there.
type guideHosts struct {
	t       *testing.T
	folder  string
	hosts   map[string]*network.Host
	servers map[string]*exec.Cmd
}

func (g *guideHosts) start(host, line string, output *os.File) *exec.Cmd {
	g.t.Helper()
	shell := exec.Command("bash", "-c", line)
	shell.Dir, shell.Stdout, shell.Stderr = g.folder, output, output
	shell.Env = append(os.Environ(), "PATH="+built(g.t, "bin")+":"+os.Getenv("PATH"))
	if err := g.hosts[host].Start(shell); err != nil {
		g.t.Fatal(err)
	}
	return shell
}

// run runs a line to its end and returns what it printed.
func (g *guideHosts) run(host, line string) string {
	g.t.Helper()
	path := filepath.Join(g.t.TempDir(), "output")
	file, err := os.Create(path)
	if err != nil {
		g.t.Fatal(err)
	}
	defer file.Close()
	// Commands of the guide may fail: it is what they print that counts.
	g.start(host, line, file).Wait()
	return content(g.t, path)
}

// serve starts a server, and waits until it has printed what the guide says.
func (g *guideHosts) serve(line typed) {
	g.t.Helper()
	path := filepath.Join(g.t.TempDir(), "output")
	file, err := os.Create(path)
	if err != nil {
		g.t.Fatal(err)
	}
	defer file.Close()
	g.servers[line.host] = g.start(line.host, "exec "+line.line, file)
	await(g.t, "the server on "+line.host+" prints "+line.output, func() bool { return strings.HasPrefix(content(g.t, path), line.output) })
}

// stop does what Ctrl-C does.
func (g *guideHosts) stop(host string) {
	g.t.Helper()
	if err := g.servers[host].Process.Signal(os.Interrupt); err != nil {
		g.t.Fatal(err)
	}
	g.servers[host].Wait()
}
