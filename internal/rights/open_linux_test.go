package rights_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
)

// What the kernel may have to ask others about is not registered with the runtime's poller; what can
// only be waited for by it, is.
func TestNewFileRegistersWhatAnswersAtOnce(t *testing.T) {
	newFile := func(t *testing.T, number int) *os.File {
		file, err := rights.NewFile(number, "received")
		must(t, err)
		return file
	}
	ofACall := func(t *testing.T, number int) *os.File {
		var table descriptors.Table
		table.Put([]int{number})
		file, err := table.TakeFile(0)
		must(t, err)
		table.Release()
		return file
	}
	for name, open := range map[string]func(t *testing.T, number int) *os.File{"a file": newFile, "a call's": ofACall} {
		for what, registered := range map[string]bool{"an epoll": false, "a pipe": true, "a socket": true,
			"a TCP socket": true, "a UDP socket": true, "a netlink socket": false, "a terminal": false} {
			t.Run(name+" "+what, func(t *testing.T) {
				file := open(t, nonBlocking(t, what))
				defer file.Close()
				err := file.SetReadDeadline(time.Now())
				if registered && err != nil || !registered && !errors.Is(err, os.ErrNoDeadline) {
					t.Errorf("its deadline can be set: %v; registered should be %v", err, registered)
				}
			})
		}
	}
}

// Who takes a file closes it when that suits the program, which then does not wait for what the
// sender has left unsent.
func TestTakenFilesDoNotLinger(t *testing.T) {
	trap, err := rightstest.NewTrapper(t).Make()
	must(t, err)
	var table descriptors.Table
	table.Put([]int{trap})
	file, err := table.TakeFile(0)
	must(t, err)
	table.Release()
	raw, err := file.SyscallConn()
	must(t, err)
	var linger *unix.Linger
	must(t, raw.Control(func(fd uintptr) { linger, err = unix.GetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER) }))
	must(t, err)
	if linger.Onoff != 0 {
		t.Errorf("the socket lingers for %d seconds", linger.Linger)
		_ = raw.Control(func(fd uintptr) { rights.Disarm(int(fd)) })
	}
	must(t, file.Close())
}

// It is the same file still, also where its number is another.
func TestNewFileIsTheSame(t *testing.T) {
	for _, what := range []string{"an epoll", "a pipe", "a socket"} {
		number := nonBlocking(t, what)
		copied, err := unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(copied)
		file, err := rights.NewFile(number, "received")
		must(t, err)
		defer file.Close()
		raw, err := file.SyscallConn()
		must(t, err)
		must(t, raw.Control(func(fd uintptr) {
			// 0: the same, says the kernel of two descriptions.
			same, _, failure := unix.Syscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(os.Getpid()), 0, fd, uintptr(copied), 0)
			if failure != 0 || same != 0 {
				t.Errorf("%s became something else: %d, %v", what, same, failure)
			}
			if flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s is not close-on-exec: %d, %v", what, flags, err)
			}
		}))
	}
}

func nonBlocking(t *testing.T, what string) (number int) {
	t.Helper()
	switch what {
	case "a pipe":
		var ends [2]int
		must(t, unix.Pipe2(ends[:], unix.O_CLOEXEC))
		t.Cleanup(func() { unix.Close(ends[1]) })
		number = ends[0]
	case "a socket":
		number, _ = pair(t)
	case "a TCP socket":
		number = openSocket(t, unix.AF_INET, unix.SOCK_STREAM)
	case "a UDP socket":
		number = openSocket(t, unix.AF_INET6, unix.SOCK_DGRAM)
	case "a netlink socket":
		number = openSocket(t, unix.AF_NETLINK, unix.SOCK_RAW)
	case "a terminal":
		opened, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		must(t, err)
		number = opened
	default:
		var err error
		number, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		must(t, err)
	}
	must(t, unix.SetNonblock(number, true))
	return number
}

func openSocket(t *testing.T, domain, kind int) (number int) {
	t.Helper()
	number, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	return number
}
