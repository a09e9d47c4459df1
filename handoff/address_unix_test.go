//go:build unix

package handoff_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/handoff"
)

func newAddress(t *testing.T) string { return "unix:" + filepath.Join(t.TempDir(), "backend.sock") }

// needsSockets is for tests that give sockets, which every Unix can.
func needsSockets(*testing.T) {}

// Only a socket on which nobody listens is replaced, on every Unix.
func TestListenReplacesDeadSocketsOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.db")
	must(t, os.WriteFile(path, []byte("valuable"), 0o600))
	if l, err := handoff.Listen("unix:" + path); err == nil {
		t.Errorf("a regular file was replaced; %v", l.Close())
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "valuable" {
		t.Errorf("the file is %q, %v", data, err)
	}
	must(t, os.Remove(path))
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	dead.SetUnlinkOnClose(false)
	if l, err := handoff.Listen("unix:" + path); err == nil {
		t.Errorf("a socket on which somebody listens was replaced; %v", l.Close())
	}
	must(t, dead.Close())
	l, err := handoff.Listen("unix:" + path)
	must(t, err)
	must(t, l.Close())
}

// Names that are no path are refused as that: there is nothing that would allow them.
func TestAbstractAddressesAreRefused(t *testing.T) {
	_, err := handoff.Listen("unix:@nearcall-test")
	if err == nil || !strings.Contains(err.Error(), "unix:/path only") {
		t.Errorf("unix:@nearcall-test: %v", err)
	}
}
