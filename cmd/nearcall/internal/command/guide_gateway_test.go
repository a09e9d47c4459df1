package command_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const gatewayGuide = root + "/docs/guides/gateway.md"

// freePorts returns ports of this machine that nobody uses.
func freePorts(t *testing.T, count int) (ports []string) {
	t.Helper()
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		ports = append(ports, l.Addr().String())
	}
	return ports
}

var shownTimes = regexp.MustCompile(`\d+(\.\d+)?(ms|s)\b`)

// A gatewayStage is what the guide's commands run on.
type gatewayStage struct {
	places, shown *strings.Replacer // from what the guide has to what is here, and back
	engine        string            // where the first gateway's NATS server is
	gateways      int
}

func newGatewayStage(t *testing.T) *gatewayStage {
	t.Helper()
	folder, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	ports := freePorts(t, 4)
	return &gatewayStage{engine: ports[3], shown: strings.NewReplacer(folder+"/", "/tmp/", ports[3], "127.0.0.1:4222"),
		places: strings.NewReplacer("/tmp/", folder+"/", "127.0.0.1:6222", ports[0], "127.0.0.1:4223", ports[1], "127.0.0.1:6223", ports[2])}
}

// start runs a command that goes on running.
func (s *gatewayStage) start(t *testing.T, command string) {
	t.Helper()
	args := strings.Fields(s.places.Replace(command))
	if args[0] == "gateway" {
		if s.gateways++; s.gateways == 1 {
			// It listens at the port of NATS, which somebody else may use.
			args = append(args, "--engine-listen", s.engine)
		}
		startGateway(t, args[1:]...)
		return
	}
	process := exec.Command(binary, args...)
	must(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
}

// run returns what a command prints.
func (s *gatewayStage) run(t *testing.T, command string) string {
	t.Helper()
	shell := exec.Command("bash", "-c", "exec 2>&1; "+s.places.Replace(command))
	shell.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	out, err := shell.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return s.bare(string(out))
}

// bare leaves out what differs from run to run.
func (s *gatewayStage) bare(text string) string {
	return strings.TrimRight(shownTimes.ReplaceAllString(s.shown.Replace(text), "TIME"), "\n ")
}

// check compares what a command prints with what the guide shows. What gateways know of each other
// comes by and by.
func (s *gatewayStage) check(t *testing.T, e example) {
	t.Helper()
	want, until := s.bare(e.output), time.Now().Add(gatewayPatience)
	for got := s.run(t, e.command); got != want; got = s.run(t, e.command) {
		if time.Now().After(until) {
			t.Fatalf("%s\nprints\n%s\nand in the guide\n%s", e.command, got, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// The guide shows what gateways do. Commands that go on running are its indented lines that begin
// with the command. Its examples with the command nats are run by gateway/nats/tests/nats, which
// builds that command.
func TestGatewayGuide(t *testing.T) {
	stage := newGatewayStage(t)
	examples := guideExamples(t, gatewayGuide)
	text, err := os.ReadFile(gatewayGuide)
	must(t, err)
	checked := 0
	for line := range strings.Lines(string(text)) {
		if command, goesOn := strings.CutPrefix(line, "    nearcall "); goesOn {
			stage.start(t, command)
		}
		if !strings.HasPrefix(line, "    $ ") {
			continue
		}
		if e := examples[0]; !strings.HasPrefix(e.command, "nats ") {
			stage.check(t, e)
			checked++
		}
		examples = examples[1:]
	}
	if checked < 6 || len(examples) > 0 {
		t.Fatalf("%d examples were checked, and %d are left", checked, len(examples))
	}
}

// The configuration in the guide is one, and so is that of packaging.
func TestGatewayGuideConfiguration(t *testing.T) {
	certificates := engineCertificates(t) + "/"
	for _, path := range []string{guideFile(t, gatewayGuide, "gateway.toml", "/etc/nearcall/", certificates), packagedConfiguration(t, certificates)} {
		nearcall(t, "gateway", "--check", "--config", path).expectOut(t, "the configuration is fine: 1 export, and functions of others at unix:/run/nearcall/gateway.sock\n")
	}
}

// The guide has a row for every key.
func TestGatewayGuideHasAllKeys(t *testing.T) {
	text, err := os.ReadFile(gatewayGuide)
	must(t, err)
	for table, header := range map[string]string{"": "", "[[export]]": "[[export]]\n", "[engine]": "[engine]\n", "[direct_tls]": "[direct_tls]\n"} {
		said := nearcall(t, "gateway", "--check", "--config", gatewayFile(t, header+"unknown = 1\n")).expect(t, 1, "is not known here: there are ").err
		_, keys, _ := strings.Cut(strings.TrimSpace(said), "there are ")
		for key := range strings.SplitSeq(keys, ", ") {
			if table == "" && (key == "export" || key == "engine" || key == "direct_tls") {
				continue
			}
			if !hasKeyRow(string(text), table, key) {
				t.Errorf("%s %s has no row", table, key)
			}
		}
	}
}

func hasKeyRow(page, table, key string) bool {
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		if len(cells) > 4 && strings.Trim(cells[1], " `") == table && strings.Contains(cells[2], "`"+key+"`") {
			return true
		}
	}
	return false
}

// packagedConfiguration is that of packaging, with a group that every system has, and certificates.
func packagedConfiguration(t *testing.T, certificates string) string {
	t.Helper()
	text, err := os.ReadFile(root + "/packaging/systemd/gateway.toml")
	must(t, err)
	return gatewayFile(t, strings.NewReplacer(`socket_group = "nearcall"`, `socket_group = "daemon"`, "/etc/nearcall/", certificates).Replace(string(text)))
}

// systemd has nothing to say against the unit.
func TestGatewayUnit(t *testing.T) {
	text, err := os.ReadFile(root + "/packaging/systemd/nearcall-gateway.service")
	must(t, err)
	// A program and a user that are there, which are looked for.
	unit := strings.NewReplacer("/usr/local/bin/nearcall", binary, "=nearcall\n", "=daemon\n", "RuntimeDirectory=daemon", "RuntimeDirectory=nearcall").Replace(string(text))
	path := filepath.Join(t.TempDir(), "nearcall-gateway.service")
	must(t, os.WriteFile(path, []byte(unit), 0o600))
	if said, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, said)
	}
}
