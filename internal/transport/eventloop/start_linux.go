package eventloop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"
)

// startPollers lets netpoll start its pollers, unless they run, and sees to it that
// children do not inherit their descriptors: one that wrote to the eventfd of a poller
// would end it. Where the process may not look for them they stay as netpoll has made
// them. It costs nothing that stays but what netpoll keeps.
func startPollers() error {
	// No child is started before the descriptors are marked, and nobody else starts
	// pollers.
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	list, err := os.Open("/proc/self/fd")
	if err != nil && !isHidden(err) {
		return fmt.Errorf("the event loop finds netpoll's descriptors there: %w", err)
	}
	failure := guarded(func() error { netpoll.Initialize(); return nil })
	if err != nil {
		return failure
	}
	// Some of the pollers may have opened, and stay, when another did not.
	names, err := list.Readdirnames(-1)
	return errors.Join(failure, err, list.Close(), closeOnExec(names))
}

// isHidden tells whether a file of /proc is not there or may not be read.
func isHidden(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

// guarded calls a function of netpoll's that starts its pollers where there are none.
// netpoll has no error for pollers that cannot be opened: it forgets how many there
// are to be, and dereferences nil.
func guarded(start func() error) (err error) {
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		if _, ours := reason.(runtime.Error); !ours {
			panic(reason)
		}
		// So that the next call tries again. What the application has configured is
		// lost: netpoll keeps it nowhere, and this is what it begins with.
		again := netpoll.Configure(netpoll.Config{PollerNum: pollers(), LoadBalance: netpoll.RoundRobin})
		err = errors.Join(fmt.Errorf("netpoll cannot start: %w", cause()), again)
	}()
	return start()
}

// pollers is how many there are, by netpoll's own rule.
func pollers() int { return runtime.GOMAXPROCS(0)/processorsPerSet + 1 }

var errNoPoller = errors.New("its pollers did not open")

// cause asks the kernel for what netpoll does not tell.
func cause() error {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	defer unix.Close(epoll)
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	return errors.Join(errNoPoller, unix.Close(bell))
}

// closeOnExec marks those of the descriptors that are netpoll's. Of what is marked
// already nothing more is asked: that are most, among them the sets', of which the kernel
// would list all connections.
func closeOnExec(descriptors []string) error {
	for _, epoll := range descriptors {
		if !inherited(epoll) || !leadsTo(epoll, "anon_inode:[eventpoll]") {
			continue
		}
		bell, found, err := bellOf(epoll)
		if err != nil {
			return err
		}
		if found {
			// In this order: where the instance is marked the eventfd is.
			err = errors.Join(mark(bell), mark(epoll))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inherited tells whether children have a descriptor too. One that was closed meanwhile
// they have not.
func inherited(descriptor string) bool {
	number, err := strconv.Atoi(descriptor)
	if err != nil {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

func leadsTo(descriptor, want string) bool {
	target, err := os.Readlink(filepath.Join("/proc/self/fd", descriptor))
	return err == nil && target == want
}

// bellEvents is what a poller watches its eventfd for: EPOLLRDHUP, which an eventfd
// never tells, marks it as netpoll's.
const bellEvents = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLERR | unix.EPOLLHUP

// bellOf returns the eventfd of an epoll instance that is a poller's. An instance that
// was closed meanwhile, or that the process may not ask about, is none.
func bellOf(epoll string) (bell string, found bool, err error) {
	text, err := os.ReadFile(filepath.Join("/proc/self/fdinfo", epoll))
	if isHidden(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	for line := range strings.Lines(string(text)) {
		// tfd: NUMBER events: HEXADECIMAL data: ...
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] != "tfd:" {
			continue
		}
		events, err := strconv.ParseUint(fields[3], 16, 32)
		if err == nil && events == bellEvents && leadsTo(fields[1], "anon_inode:[eventfd]") {
			return fields[1], true, nil
		}
	}
	return "", false, nil
}

func mark(descriptor string) error {
	number, err := strconv.Atoi(descriptor)
	if err != nil {
		return err
	}
	_, err = unix.FcntlInt(uintptr(number), unix.F_SETFD, unix.FD_CLOEXEC)
	return os.NewSyscallError("fcntl(F_SETFD)", err)
}
