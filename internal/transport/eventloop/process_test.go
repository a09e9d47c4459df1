package eventloop_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
	"open without /proc":        openWithoutProc,
	"take a poller away":        takePollerAway,
}

// processors is few enough for one set of connections, whatever the machine has: what is
// told of one connection is then told after what happened to another before.
const processors = 2

// inherited are the numbers of descriptors that this process was given and gives on.
var inherited []string

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(processors)
	var err error
	if inherited, err = inheritable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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

// inheritable returns the numbers of descriptors that a child would have too and that
// are the kernel's own, as an engine's are.
func inheritable() (numbers []string, err error) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	for _, entry := range list {
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		number, wrong := strconv.Atoi(entry.Name())
		if err != nil || wrong != nil || !strings.HasPrefix(target, anonymous) {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			numbers = append(numbers, entry.Name())
		}
	}
	return numbers, nil
}

// anonymous begins what a descriptor of an epoll instance or an eventfd leads to.
const anonymous = "anon_inode:"

// inProcess plays a role in a process of its own.
func inProcess(t *testing.T, role, argument string) {
	t.Helper()
	inProcessWith(t, nil, role, argument)
}

func inProcessWith(t *testing.T, attributes *syscall.SysProcAttr, role, argument string) {
	t.Helper()
	program := exec.Command(os.Args[0])
	program.SysProcAttr = attributes
	program.Env = append(os.Environ(), roleVariable+"="+role+"="+argument)
	if output, err := program.CombinedOutput(); err != nil {
		t.Errorf("%s (%s): %v\n%s", role, argument, err, output)
	}
}

// TestShortOfDescriptors: however few are free when netpoll starts, Open says so, and
// succeeds as soon as there are enough. Pollers that did open are not inherited.
func TestShortOfDescriptors(t *testing.T) {
	for free := range descriptorsOfPollers + descriptorsOfSet {
		inProcess(t, "open short of descriptors", strconv.Itoa(free))
	}
}

const (
	pollersAsked = 3
	// Each has an epoll instance and an eventfd, as a set of connections has; they are
	// looked for by another.
	descriptorsOfPollers = 2*pollersAsked + 1
	descriptorsOfSet     = 2
)

func openShort(argument string) error {
	free, err := strconv.Atoi(argument)
	if err != nil {
		return err
	}
	if err := netpoll.Configure(netpoll.Config{PollerNum: pollersAsked}); err != nil {
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
	if err == nil {
		err = nothingInheritable()
	}
	if err != nil {
		return fmt.Errorf("with %d free: %w", free, err)
	}
	if made, err = (eventloop.Engine{}).Open(tcp.Transport{}); err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	return made.Close()
}

func nothingInheritable() error {
	now, err := inheritable()
	if err == nil && !slices.Equal(now, inherited) {
		err = fmt.Errorf("children inherit the descriptors %v, before %v", now, inherited)
	}
	return err
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

// TestWithoutProc: where netpoll's descriptors cannot be found they are inherited, and
// all else goes on.
func TestWithoutProc(t *testing.T) {
	inProcessWith(t, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}, "open without /proc", "")
}

func openWithoutProc(string) error {
	if err := unix.Mount("none", "/proc", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	made, err := eventloop.Engine{}.Open(tcp.Transport{})
	if err != nil {
		return err
	}
	return made.Close()
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
	for line := range strings.Lines(string(list)) {
		// ... NUMBER -> TARGET
		before, target, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		number := before[strings.LastIndexByte(before, ' ')+1:]
		if strings.HasPrefix(target, anonymous) && !slices.Contains(inherited, number) {
			t.Errorf("a child has a descriptor of the engine: %s", line)
		}
	}
}
