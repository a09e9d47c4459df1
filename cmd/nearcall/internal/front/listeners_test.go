package front

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// Errors of addresses say what helps.
func TestWayOut(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EACCES:     "CAP_NET_BIND_SERVICE",
		syscall.EADDRINUSE: "another program",
		syscall.EMFILE:     "LimitNOFILE=",
	} {
		if got := wayOut(os.NewSyscallError("bind", errno)); !strings.Contains(got, want) {
			t.Errorf("%v: %q does not say %s", errno, got, want)
		}
	}
}
