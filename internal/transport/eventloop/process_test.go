package eventloop_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/eventloop"
	"github.com/nearcall/nearcall/internal/transport/tcp"
)

// roleVariable names what a process of this test's program does instead of the tests:
// netpoll starts once in a process, and stays as it was started.
const roleVariable = "EVENTLOOP_TEST_ROLE"

var roles = map[string]func(argument string) error{
	"open short of descriptors": openShort,
	"take a poller away":        takePollerAway,
}

func TestMain(m *testing.M) {
	role, argument, _ := strings.Cut(os.Getenv(roleVariable), "=")
	run, found := roles[role]
	if !found {
		os.Exit(m.Run())
	}
	if err := run(argument); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// inProcess plays a role in a process of its own.
func inProcess(t *testing.T, role, argument string) {
	t.Helper()
	program := exec.Command(os.Args[0])
	program.Env = append(os.Environ(), roleVariable+"="+role+"="+argument)
	if output, err := program.CombinedOutput(); err != nil {
		t.Errorf("%s (%s): %v\n%s", role, argument, err, output)
	}
}

// TestShortOfDescriptors: however few are free when netpoll starts, Open says so, and
// succeeds as soon as there are enough.
func TestShortOfDescriptors(t *testing.T) {
	for free := range 5 {
		inProcess(t, "open short of descriptors", strconv.Itoa(free))
	}
}

func openShort(argument string) error {
	free, err := strconv.Atoi(argument)
	if err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	lower := unix.Rlimit{Cur: min(limit.Cur, 256), Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lower); err != nil {
		return err
	}
	// As a server has one before: the runtime's own poller ends a process that has no
	// descriptors left for it.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	taken, err := takeAllBut(free)
	if err != nil {
		return err
	}
	made, err := eventloop.Engine{}.Open(tcp.Transport{})
	if err == nil {
		err = made.Close()
	} else if errors.Is(err, unix.EMFILE) {
		err = nil
	}
	for _, descriptor := range taken {
		unix.Close(descriptor)
	}
	if err != nil {
		return fmt.Errorf("with %d free: %w", free, err)
	}
	if made, err = (eventloop.Engine{}).Open(tcp.Transport{}); err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	return made.Close()
}

// takeAllBut leaves so many descriptors.
func takeAllBut(free int) (taken []int, err error) {
	for {
		made, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if errors.Is(err, unix.EMFILE) {
			break
		}
		if err != nil {
			return nil, err
		}
		taken = append(taken, made)
	}
	for range free {
		last := len(taken) - 1
		if err := unix.Close(taken[last]); err != nil {
			return nil, err
		}
		taken = taken[:last]
	}
	return taken, nil
}

// TestPollerTakenAway: where the application ends a poller, Close says so instead of
// waiting for it.
func TestPollerTakenAway(t *testing.T) {
	inProcess(t, "take a poller away", "")
}

func takePollerAway(string) error {
	// Each engine has another of an odd number of pollers.
	if err := netpoll.Configure(netpoll.Config{PollerNum: 3}); err != nil {
		return err
	}
	var all []transport.ParkingTransport
	for i := range 4 {
		if i == 3 {
			if err := netpoll.Configure(netpoll.Config{PollerNum: 2}); err != nil {
				return err
			}
		}
		made, err := eventloop.Engine{}.Open(tcp.Transport{})
		if err != nil {
			return err
		}
		all = append(all, made)
	}
	refusals := 0
	for _, made := range all {
		if made.Close() != nil {
			refusals++
		}
	}
	if refusals != 1 {
		return fmt.Errorf("%d of %d engines could not be closed, want 1: that of the poller taken away", refusals, len(all))
	}
	return nil
}

// TestChildrenInheritNothing: what waits is not a child's to disturb.
func TestChildrenInheritNothing(t *testing.T) {
	made, err := eventloop.Engine{}.Open(tcp.Transport{})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	list, err := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, list)
	}
	if bytes.Contains(list, []byte("anon_inode")) {
		t.Errorf("a child has descriptors of the engine:\n%s", list)
	}
}
