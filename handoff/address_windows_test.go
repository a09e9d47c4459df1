package handoff_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

func newAddress(t *testing.T) string {
	return fmt.Sprintf("pipe:nearcall-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
}

// needsSockets passes over tests that give sockets where the completion port of a
// connection cannot be unbound.
func needsSockets(t *testing.T) {
	t.Helper()
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil {
		t.Skip("needs a real Windows: net.TCPConn.File unbinds the completion port")
	}
}
