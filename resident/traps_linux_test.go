package resident_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/resident/internal/request"
	"github.com/nearcall/nearcall/resident/internal/testlauncher"
	"github.com/nearcall/nearcall/tests/processes"
)

// Sockets whose closing waits, of runs that are refused, hold up nobody else's run: neither
// where they come nor as one of them that is to be a directory.
func TestTrapsHoldUpNoRun(t *testing.T) {
	const refused = 4 // more than there are processes that wait
	good, err := request.Request{Header: request.Header{Kind: request.Run}, Directory: "/", Arguments: []string{"program"}}.Append(nil)
	must(t, err)
	trapper := rightstest.NewTrapper(t)
	eachMode(t, func(t *testing.T, _, path string) {
		run(t, testlauncher.Launch{Program: path})
		// Nobody receives one before this process has let go of it.
		pid := status(t, path).ProcessID
		all := append(children(t, pid), pid)
		tell := func(s unix.Signal) {
			for _, process := range all {
				must(t, unix.Kill(process, s))
			}
		}
		tell(unix.SIGSTOP)
		for range refused {
			conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: placeOf(t, path).Socket()})
			must(t, err)
			defer conn.Close()
			trap, err := trapper.Make()
			must(t, err)
			must(t, testlauncher.SendWith(conn, good, trap, trap, trap, trap))
			must(t, unix.Close(trap))
		}
		tell(unix.SIGCONT)
		begin := time.Now()
		must(t, processes.Within(t, "a run beside those that are refused", patience, func() error {
			_, err := testlauncher.Launch{Program: path}.Run()
			return err
		}))
		t.Logf("a run beside them took %v", time.Since(begin))
	})
}
