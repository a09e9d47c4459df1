package command_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

// gatewayPatience bounds every wait for a gateway.
const gatewayPatience = 20 * time.Second

// A gatewayProcess is a `nearcall gateway` that runs.
type gatewayProcess struct {
	*exec.Cmd
	log    *syncedBuffer
	states *net.UnixConn // what it tells systemd
}

type syncedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(text)
}

func (b *syncedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// startGateway runs a gateway and waits until it says that it is ready.
func startGateway(t *testing.T, args ...string) *gatewayProcess {
	t.Helper()
	g := &gatewayProcess{Cmd: exec.Command(binary, append([]string{"gateway"}, args...)...), log: &syncedBuffer{}}
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	socket := filepath.Join(directory, "notify")
	g.states, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	must(t, err)
	g.Env, g.Stderr = append(os.Environ(), "NOTIFY_SOCKET="+socket), g.log
	must(t, g.Start())
	t.Cleanup(func() {
		_ = g.Process.Kill()
		_ = g.Wait()
		g.states.Close()
		os.RemoveAll(directory)
	})
	if got := g.state(t); got != "READY=1" {
		t.Fatalf("it said %q", got)
	}
	return g
}

// state returns what it tells systemd next.
func (g *gatewayProcess) state(t *testing.T) string {
	t.Helper()
	must(t, g.states.SetReadDeadline(time.Now().Add(gatewayPatience)))
	text := make([]byte, 100)
	n, err := g.states.Read(text)
	if err != nil {
		t.Fatalf("the gateway says nothing: %v\n%s", err, g.log)
	}
	return string(text[:n])
}

// awaitCall waits until a call succeeds.
func awaitCall(t *testing.T, address string, words ...string) run {
	t.Helper()
	for until := time.Now().Add(gatewayPatience); ; time.Sleep(20 * time.Millisecond) {
		got := nearcall(t, append([]string{"call", address}, words...)...)
		if got.code == 0 {
			return got
		}
		if time.Now().After(until) {
			t.Fatalf("not within %v: %s", gatewayPatience, got.err)
		}
	}
}

// A gateway is run as systemd runs it: it is told to read its file again, and to end.
func TestGatewayRuns(t *testing.T) {
	one := serve(t, func(s *server.Server) { s.Register("one", func() int64 { return 1 }) })
	two := serve(t, func(s *server.Server) { s.Register("two", func() int64 { return 2 }) })
	socket := "unix:" + filepath.Join(filepath.Dir(strings.TrimPrefix(one, "unix:")), "gateway")
	configuration := "host = \"a\"\nlisten = \"" + socket + "\"\n[engine]\nlisten = \"off\"\n[[export]]\nname = \"one\"\naddress = \"" + one + "\"\n"
	path := gatewayFile(t, configuration)
	g := startGateway(t, "--config", path)
	if got := awaitCall(t, socket, "one"); got.out != "1\n" {
		t.Fatalf("got %q", got.out)
	}
	// The gateway tells callers where a function of this machine is, so it sees no call of it.
	nearcall(t, "gateway", "status", socket).expect(t, 0, "a on host a, up ", "connected to its own NATS server", "exports\n  one  "+one+"  up  1 function  ", "one  one at a  local  ready  0 calls, 0 failed")
	nearcall(t, "gateway", "status", "--json", socket).expect(t, 0, `"host":"a"`)

	must(t, os.WriteFile(path, []byte(configuration+"[[export]]\nname = \"two\"\naddress = \""+two+"\"\n"), 0o600))
	must(t, g.Process.Signal(syscall.SIGHUP))
	if got := awaitCall(t, socket, "two"); got.out != "2\n" {
		t.Fatalf("got %q", got.out)
	}
	must(t, os.WriteFile(path, []byte("zone = 1\n"), 0o600))
	must(t, g.Process.Signal(syscall.SIGHUP))
	for until := time.Now().Add(gatewayPatience); !strings.Contains(g.log.String(), "the configuration is not used"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it does not say what is wrong:\n%s", g.log)
		}
	}
	nearcall(t, "call", socket, "one").expectOut(t, "1\n")

	if said := g.log.String(); strings.Contains(said, "msg=stopped") || !strings.Contains(said, "the functions that are served have changed") {
		t.Errorf("it serves, and its log says\n%s", said)
	}

	must(t, g.Process.Signal(syscall.SIGTERM))
	if got := g.state(t); got != "STOPPING=1" {
		t.Fatalf("it said %q", got)
	}
	if err := g.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, g.log)
	}
	nearcall(t, "call", socket, "one").expect(t, 78)
}

// A second signal ends a gateway at once.
func TestGatewayIsInterrupted(t *testing.T) {
	held := make(chan struct{}, 1)
	release := make(chan struct{})
	address := serve(t, func(s *server.Server) {
		s.Register("hold", func() { held <- struct{}{}; <-release })
		s.Register("one", func() int64 { return 1 })
	})
	t.Cleanup(func() { close(release) })
	socket := address + "-gateway"
	g := startGateway(t, "--listen", socket, "--export", "it="+address, "--engine-listen", "off")
	awaitCall(t, socket, "one")
	call := exec.Command(binary, "call", socket, "hold")
	must(t, call.Start())
	t.Cleanup(func() {
		_ = call.Process.Kill()
		_ = call.Wait()
	})
	select {
	case <-held:
	case <-time.After(gatewayPatience):
		t.Fatalf("nothing was called:\n%s", g.log)
	}
	must(t, g.Process.Signal(syscall.SIGTERM))
	if got := g.state(t); got != "STOPPING=1" {
		t.Fatalf("it said %q", got)
	}
	must(t, g.Process.Signal(syscall.SIGTERM))
	err := g.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(g.log.String(), "a second signal ended the gateway") {
		t.Fatalf("%v\n%s", err, g.log)
	}
}

// A gateway that cannot begin says why.
func TestGatewayDoesNotStart(t *testing.T) {
	nearcall(t, "gateway", "--listen", "unix:/no/such/folder/s", "--engine-listen", "off").expect(t, 1, "/no/such/folder/s")
	used, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer used.Close()
	nearcall(t, "gateway", "--export", "it=unix:/s", "--engine-listen", used.Addr().String()).expect(t, 1, "address already in use", "; if that is another NATS server, use it (--nats)")
}

// engineCertificates returns a folder with the files that a gateway needs for TLS. Sockets have room there.
func engineCertificates(t *testing.T) (folder string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	trusted, err := authority.New("engines")
	must(t, err)
	pair, err := trusted.Issue(authority.Subject{CommonName: "engine", IPs: authority.Loopback(), Both: true})
	must(t, err)
	for name, text := range map[string][]byte{"ca.pem": trusted.PEM(), "gateway.pem": pair.Certificate, "gateway.key": pair.Key} {
		must(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	return folder
}

// Between machines the servers of NATS in gateways speak TLS, with certificates on both sides.
func TestGatewaysOverTLS(t *testing.T) {
	folder := engineCertificates(t)
	secure := []string{"--nats-ca", folder + "/ca.pem", "--nats-cert", folder + "/gateway.pem", "--nats-key", folder + "/gateway.key", "--engine-listen", "127.0.0.1:0"}
	address := serve(t, func(s *server.Server) { s.Register("one", func() int64 { return 1 }) })
	port := freePorts(t, 1)[0]
	startGateway(t, append(secure, "--host", "b", "--export", "it="+address, "--cluster-listen", port)...)
	startGateway(t, append(secure, "--host", "a", "--listen", "unix:"+folder+"/a", "--cluster-listen", "127.0.0.1:0", "--route", "nats://"+port)...)
	if got := awaitCall(t, "unix:"+folder+"/a", "one"); got.out != "1\n" {
		t.Errorf("got %q", got.out)
	}
	nearcall(t, "gateway", "--export", "it="+address, "--cluster-listen", "0.0.0.0:6222", "--engine-listen", "127.0.0.1:0").expect(t, 1, "anybody on the network could reach 0.0.0.0:6222", "give --nats-ca, --nats-cert and --nats-key", "permit it by --plain")
	nearcall(t, "gateway", "--export", "it="+address, "--cluster-listen", "127.0.0.1:0", "--engine-listen", "off").expect(t, 1, "listens for programs as well", "give --engine-listen an address")
}
