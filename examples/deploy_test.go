package examples_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What stands in docs/guides/deploy.md, while programs in C, Go, Perl and Python call
// without a pause: no call fails, none is made twice, and each meets every server.

const (
	// The program is replaced that often, by the next version and by the one before.
	replacements = 8
	// Callers are behind a server that lasts when each has called the latest.
	callsWithoutPause = 4 * (replacements + 1)
)

var (
	callerServer = regexp.MustCompile(`(?m)^server (\d+)$`)
	callerEnd    = regexp.MustCompile(`(?m)^calls (\d+), failed (\d+)$`)
	transfers    = regexp.MustCompile(`transfers made count=(\d+)`)
)

// A deployment is a folder with the server's program, its socket, and callers.
type deployment struct {
	folder, socket string
	callers        map[string]*process
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	folder, err := os.MkdirTemp("", "nearcall-") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	d := &deployment{folder: folder, socket: filepath.Join(folder, "nearcall.sock"), callers: map[string]*process{}}
	d.makeNext(t, 0)
	d.shell(t, "mv "+d.program()+".new "+d.program())
	return d
}

func (d *deployment) address() string { return "unix:" + d.socket }

// makeNext makes a version that is to be deployed: odd ones have a parameter more.
func (d *deployment) makeNext(t *testing.T, version int) {
	t.Helper()
	script := fmt.Sprintf("#!/bin/sh\nexec %s %s\n", built(t, "examples/deploy_server"), d.address())
	if version%2 == 1 {
		script = strings.Replace(script, " unix:", " -note unix:", 1)
	}
	if err := os.WriteFile(d.program()+".new", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// page returns the commands of a section of the guide, for this folder.
func (d *deployment) page(t *testing.T, section string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/guides/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## "+section+"\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	here := strings.NewReplacer("/run/demo", d.folder, "/srv/demo", d.folder)
	for _, line := range strings.Split(rest, "\n") {
		if command, found := strings.CutPrefix(line, "    $ "); found {
			commands = append(commands, here.Replace(command))
		}
	}
	if len(commands) == 0 {
		t.Fatalf("deploy.md has no commands under %q", section)
	}
	return commands
}

func (d *deployment) shell(t *testing.T, command string) string {
	t.Helper()
	return output(t, []string{"PATH=" + built(t, "bin") + ":" + os.Getenv("PATH")}, "bash", "-c", command)
}

func (d *deployment) program() string { return filepath.Join(d.folder, "server") }

// call starts a caller in each language, and waits until all have been answered.
func (d *deployment) call(t *testing.T) {
	t.Helper()
	blib := built(t, "perl/blib")
	for language, command := range map[string][]string{
		"C":      {built(t, "examples/deploy_client_c")},
		"Go":     {built(t, "examples/deploy_client")},
		"Perl":   {"perl", "-I" + blib + "/lib", "-I" + blib + "/arch", "deploy/client.pl"},
		"Python": {built(t, "examples/venv/bin/python"), "deploy/client.py"},
	} {
		d.callers[language] = start(t, nil, command[0], append(command[1:], d.address())...)
	}
	d.awaitServers(t, 1)
}

// awaitServers waits until every caller has been answered by so many servers.
func (d *deployment) awaitServers(t *testing.T, count int) {
	t.Helper()
	for language, caller := range d.callers {
		await(t, fmt.Sprintf("the caller in %s has met %d servers", language, count), func() bool {
			select {
			case <-caller.ended:
				t.Fatalf("the caller in %s has ended", language)
			default:
			}
			return len(d.met(t, caller)) >= count
		})
	}
}

// met returns the servers that have answered a caller.
func (d *deployment) met(t *testing.T, caller *process) (servers []string) {
	t.Helper()
	for _, match := range callerServer.FindAllStringSubmatch(caller.log(t), -1) {
		if !slices.Contains(servers, match[1]) {
			servers = append(servers, match[1])
		}
	}
	return servers
}

// endCallers stops them, expects that no call has failed, and returns how many there were.
func (d *deployment) endCallers(t *testing.T) (calls int) {
	t.Helper()
	for language, caller := range d.callers {
		caller.stop(t)
		log := caller.log(t)
		said := callerEnd.FindStringSubmatch(log)
		if said == nil {
			t.Fatalf("the caller in %s did not say what became of its calls:\n%s", language, log)
		}
		made, _ := strconv.Atoi(said[1])
		if said[2] != "0" || made < callsWithoutPause {
			t.Errorf("%s: %d calls, %s failed:\n%s", language, made, said[2], log)
		}
		t.Logf("%s: %d calls to %d servers", language, made, len(d.met(t, caller)))
		calls += made
	}
	return calls
}

// expectTransfers expects that all servers together have made every transfer once.
func expectTransfers(t *testing.T, log string, want int) {
	t.Helper()
	made := 0
	ends := transfers.FindAllStringSubmatch(log, -1)
	for _, end := range ends {
		count, _ := strconv.Atoi(end[1])
		made += count
	}
	if made != want || len(ends) != replacements+1 {
		t.Errorf("%d servers made %d transfers, want %d and %d:\n%s", len(ends), made, replacements+1, want, log)
	}
}

// replaceUnderLoad calls while a program is replaced by the manager that holds its socket.
func (d *deployment) replaceUnderLoad(t *testing.T, manager *process, replace func(version int)) {
	t.Helper()
	await(t, "the socket", func() bool { _, err := os.Stat(d.socket); return err == nil })
	d.call(t)
	for version := 1; version <= replacements; version++ {
		d.makeNext(t, version)
		replace(version)
		d.awaitServers(t, version+1)
	}
	calls := d.endCallers(t)
	manager.stop(t)
	expectTransfers(t, manager.log(t), calls)
}

// Server::Starter starts the next program before it ends the one before. The schemas are
// compared meanwhile.
func TestDeployByServerStarter(t *testing.T) {
	d := newDeployment(t)
	starter, schema := d.page(t, "Server::Starter"), d.page(t, "Changing what a function takes")
	manager := start(t, nil, "bash", "-c", "exec "+starter[0])
	d.replaceUnderLoad(t, manager, func(version int) {
		if version == 1 {
			d.expectMode(t, 0o777) // as the guide warns
			d.shell(t, schema[0])
			await(t, "start_server says who serves", func() bool {
				_, err := os.Stat(filepath.Join(d.folder, "status"))
				return err == nil
			})
		}
		for _, command := range starter[1:] {
			d.shell(t, command)
		}
		for _, command := range schema[1:] {
			d.shell(t, command)
		}
	})
}

func (d *deployment) expectMode(t *testing.T, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(d.socket)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != want {
		t.Errorf("the socket has mode %v, want %v", info.Mode().Perm(), want)
	}
}

// A service manager that holds the socket, as systemd does, starts the next program when
// the one before has ended; callers wait in the socket's queue. The manager proper is not
// to be had in a test: a shell that keeps the descriptor of systemd-socket-activate does as
// it does.
func TestDeployBySocketActivation(t *testing.T) {
	d := newDeployment(t)
	keeper := `trap 'touch "$0.end"; kill $!' TERM
	while [ ! -e "$0.end" ]; do
		sh -c 'echo $$ >"$0.pid"; LISTEN_PID=$$ exec "$0"' "$0" & wait $!
	done
	wait`
	manager := start(t, nil, "systemd-socket-activate", "--listen="+d.socket, "bash", "-c", keeper, d.program())
	ended := ""
	d.replaceUnderLoad(t, manager, func(int) {
		d.shell(t, d.page(t, "Server::Starter")[1]) // puts the next program in place
		ended = d.endServer(t, ended)
	})
}

// endServer ends the process that serves, not the one that was ended before.
func (d *deployment) endServer(t *testing.T, before string) (ended string) {
	t.Helper()
	await(t, "the number of the process that serves", func() bool {
		text, err := os.ReadFile(d.program() + ".pid")
		ended = string(text)
		return err == nil && strings.HasSuffix(ended, "\n") && ended != before
	})
	pid, err := strconv.Atoi(strings.TrimSpace(ended))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGTERM)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

// The guide's units are those of the example, and systemd has nothing to say against them.
func TestDeployUnits(t *testing.T) {
	guide, err := os.ReadFile("../docs/guides/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, name := range []string{"demo.socket", "demo.service"} {
		unit, err := os.ReadFile(filepath.Join("deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(guide), "# "+name+"\n"+string(unit)) {
			t.Errorf("deploy.md shows another %s than examples/deploy has", name)
		}
		// A program that is there, which is looked for.
		text := strings.Replace(string(unit), "/srv/demo/server", "/bin/true", 1)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("systemd-analyze", "verify", filepath.Join(folder, "demo.socket"), filepath.Join(folder, "demo.service"))
	if said, err := command.CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, said)
	}
}
