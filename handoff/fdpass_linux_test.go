package handoff_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/handoff"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
)

// Apache gives the connection away when it has read the request and sent the head of
// the answer.
const apacheConfig = `
ServerRoot "DIR"
PidFile "DIR/pid"
ErrorLog "DIR/error.log"
ServerName front.example
Listen 127.0.0.1:PORT
LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_fdpass_module /usr/lib/apache2/modules/mod_proxy_fdpass.so
ProxyPass "/" "fd://run/SOCKET"
`

func TestApacheGivesConnections(t *testing.T) {
	l, address := listen(t, handoff.WithBareDescriptors())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "from the receiver\n")
			_ = c.Close()
		}
	}()
	port := startApache(t, strings.TrimPrefix(address, "unix:"))
	for range 20 {
		if got := curl(t, "--http1.0", "http://"+net.JoinHostPort("127.0.0.1", port)+"/"); got != "from the receiver\n" {
			t.Fatalf("curl prints %q", got)
		}
	}
}

func startApache(t *testing.T, socket string) (port string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err = net.SplitHostPort(free.Addr().String())
	must(t, errors.Join(err, free.Close()))
	folder := t.TempDir()
	// Its addresses have a host, and are paths below its root.
	must(t, os.Symlink(filepath.Dir(socket), filepath.Join(folder, "run")))
	config := filepath.Join(folder, "apache.conf")
	text := strings.NewReplacer("DIR", folder, "PORT", port, "SOCKET", filepath.Base(socket)).Replace(apacheConfig)
	must(t, os.WriteFile(config, []byte(text), 0o600))
	apache := exec.Command("apache2", "-X", "-f", config)
	apache.Stderr = os.Stderr
	apache.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, apache.Start())
	t.Cleanup(func() {
		_ = apache.Process.Kill()
		_ = apache.Wait()
		if log, err := os.ReadFile(filepath.Join(folder, "error.log")); t.Failed() {
			t.Logf("apache says: %s %v", log, err)
		}
	})
	awaitTCP(t, net.JoinHostPort("127.0.0.1", port))
	return port
}

// awaitTCP waits for a program that does not say when it listens.
func awaitTCP(t *testing.T, hostPort string) {
	t.Helper()
	for end := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("tcp", hostPort)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Nothing stays of bare descriptors that nobody accepts, that are several, or none.
func TestBareDescriptorsAreClosed(t *testing.T) {
	l, address := listen(t, handoff.WithBareDescriptors())
	for name, count := range map[string]int{"one that waits": 1, "two": 2, "253": 253} {
		fd, expectClosed := gift(t)
		t.Log(name)
		sendBare(t, address, manyTimes(fd, count)...)
		if count == 1 {
			must(t, l.Close())
			expectClosed()
			l, address = listen(t, handoff.WithBareDescriptors())
			continue
		}
		expectClosed()
	}
	_ = l
}

// sendBare gives as programs do that know no protocol, and returns when it was received.
func sendBare(t *testing.T, address string, descriptors ...int) {
	t.Helper()
	a := connectTo(t, address)
	a.send([]byte{0}, descriptors...)
	if _, err := io.ReadAll(a.socket); err != nil && !errors.Is(err, unix.ECONNRESET) {
		t.Error(err)
	}
	must(t, a.socket.Close())
}

// Of bare descriptors as many wait as may; one more is closed.
func TestBareDescriptorsThatWaitAreBounded(t *testing.T) {
	const descriptors = 2
	l, address := listen(t, handoff.WithBareDescriptors(), handoff.WithBareDescriptorsPerUser(descriptors))
	var waiting []func()
	for range descriptors {
		fd, expectClosed := gift(t)
		sendBare(t, address, fd)
		waiting = append(waiting, expectClosed)
	}
	fd, expectClosed := gift(t)
	sendBare(t, address, fd)
	expectClosed()

	// Accept makes room.
	c, err := l.Accept()
	must(t, err)
	must(t, c.Close())
	waiting[0]()
	fd, expectClosed = gift(t)
	sendBare(t, address, fd)
	for range descriptors {
		c, err := l.Accept()
		must(t, err)
		must(t, c.Close())
	}
	waiting[1]()
	expectClosed()
}

// Who did not ask for bare descriptors takes none.
func TestBareDescriptorsAreRefused(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	_, address := listen(t)
	fd, expectClosed := gift(t)
	socket, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: strings.TrimPrefix(address, "unix:")})
	must(t, err)
	defer func() { _ = socket.Close() }()
	_, _, err = socket.WriteMsgUnix([]byte{0}, unix.UnixRights(fd), nil)
	must(t, err)
	must(t, socket.CloseWrite())
	expectClosed()
}
