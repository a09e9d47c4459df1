package front_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights/rightstest"
)

const (
	traps = 100
	// trapThreadsMax close descriptors, and some more serve meanwhile.
	trapThreadsMax = 32
)

// TestMetricsTakeNoDescriptors: those who ask for metrics cannot send what is slow to close, to
// whoever has to close it then.
func TestMetricsTakeNoDescriptors(t *testing.T) {
	t.Run("this kernel", func(t *testing.T) {
		s := newSite(t)
		s.serve(strict + metricsPart)
		asker := s.dialMetrics()
		_, _, err := asker.WriteMsgUnix([]byte("G"), unix.UnixRights(0), nil)
		if refuses := knowsRights(t, asker); refuses && !errors.Is(err, unix.EPERM) || !refuses && err != nil {
			t.Errorf("a descriptor is sent to it: %v", err)
		}
	})
	t.Run("old kernel", func(t *testing.T) {
		s := newSite(t)
		s.serveBy(rightstest.StartOnOldKernel, strict+metricsPart)
		s.ask("/healthz")
		before := s.front.threads(t)
		s.trapMetrics()
		if now := s.front.threads(t); now > before+trapThreadsMax {
			t.Errorf("%d askers with a trap each take %d threads; there were %d", traps, now, before)
		}
		s.ask("/healthz")
	})
}

func knowsRights(t *testing.T, socket *net.UnixConn) (knows bool) {
	t.Helper()
	raw, err := socket.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		_, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS)
		knows = err == nil
	}))
	return knows
}

func (s *site) dialMetrics() *net.UnixConn {
	s.t.Helper()
	asker, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: s.path("metrics.sock")})
	must(s.t, err)
	s.t.Cleanup(func() { asker.Close() })
	return asker
}

// trapMetrics leaves the front the last reference of a trap on each of many connections, for it is
// stopped meanwhile, and waits until it has ended them.
func (s *site) trapMetrics() {
	s.t.Helper()
	trapper := rightstest.NewTrapper(s.t)
	var askers []*net.UnixConn
	must(s.t, syscall.Kill(s.front.pid(), syscall.SIGSTOP))
	for range traps {
		asker := s.dialMetrics()
		askers = append(askers, asker)
		must(s.t, trapper.LeaveTo(asker, []byte("GET /healthz HTTP/1.1\r\n")))
	}
	must(s.t, syscall.Kill(s.front.pid(), syscall.SIGCONT))
	for _, asker := range askers {
		must(s.t, asker.SetReadDeadline(time.Now().Add(patience)))
		if _, err := asker.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			s.t.Fatalf("a connection with a trap has not ended after %v; the front has %d threads", patience, s.front.threads(s.t))
		}
	}
}

func (p *process) threads(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid()))
	must(t, err)
	return len(entries)
}
