package program_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

// asPeer makes this program a peer whose server fails at once.
const asPeer = "NEARCALL_TEST_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(asPeer) != "" {
		failing := func(net.Listener) error { return errors.New("it was enough") }
		program.Main(program.Peer{Serve: program.OnSocket(failing)})
		return
	}
	os.Exit(m.Run())
}

// A server that nobody answers for any more is not there.
func TestAServerThatEndsEndsItsProcess(t *testing.T) {
	command := exec.Command(os.Args[0], "serve", "unix:"+filepath.Join(t.TempDir(), "s"))
	command.Env = append(os.Environ(), asPeer+"=1")
	output, err := command.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || !strings.Contains(string(output), "it was enough") {
		t.Errorf("it ended with %v and said %q", err, output)
	}
}
