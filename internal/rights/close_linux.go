package rights

import (
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// closersMax bounds the threads that wait for files which cannot be disarmed.
	closersMax = 16
	// waitingMax descriptors wait for one of them.
	waitingMax = 1024
)

// Close closes descriptors that came from elsewhere, for whoever reads them. It does not
// wait for any of them: what might make it is closed by one of a few goroutines. Only when these
// are all held up, and very many wait for them, is the caller: who goes on sending such files waits itself.
func Close(numbers ...int) { closeAll(elsewhere.runOrWait, numbers) }

// CloseSoon is Close for whoever ends a call: it never waits, however many others do.
// Crowded bounds how many there can be.
func CloseSoon(numbers ...int) { closeAll(elsewhere.run, numbers) }

func closeAll(later func(task func()), numbers []int) {
	for _, number := range numbers {
		switch {
		case number < 0:
		case isQuick(number):
			_ = unix.Close(number)
		default:
			later(func() { _ = unix.Close(number) })
		}
	}
}

// Crowded reports that a call is not to have such descriptors: very many wait to be
// closed, and so would one of these.
func Crowded(numbers ...int) bool {
	return elsewhere.isFull() && slices.ContainsFunc(numbers, func(number int) bool { return !isQuick(number) })
}

// An Open is a file, or a connection of package net.
type Open interface {
	syscall.Conn
	Close() error
}

// CloseOpen is CloseSoon for what a descriptor from elsewhere was made into.
func CloseOpen(open Open) {
	quick := true
	raw, err := open.SyscallConn()
	if err == nil {
		// It fails where it is closed already.
		_ = raw.Control(func(fd uintptr) { quick = isQuick(int(fd)) })
	}
	if quick {
		// Nothing was written through it here.
		_ = open.Close()
		return
	}
	elsewhere.run(func() { _ = open.Close() })
}

// Disarm makes sure that closing a socket which came from elsewhere does not wait for
// what was not sent. Nothing is lost by that: the kernel goes on sending. A linger time of zero,
// which does not wait and resets the connection, stays.
func Disarm(socket int) (armed bool) {
	linger, err := unix.GetsockoptLinger(socket, unix.SOL_SOCKET, unix.SO_LINGER)
	if err != nil || linger.Onoff == 0 || linger.Linger == 0 {
		return false
	}
	// Whoever was given it may be told otherwise by whoever gave it: it still is suspect.
	_ = unix.SetsockoptLinger(socket, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	return true
}

// isQuick tells that closing a descriptor does not wait, and sees to it where it can.
func isQuick(number int) bool {
	var stat unix.Stat_t
	if unix.Fstat(number, &stat) != nil {
		return true
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return true
	case unix.S_IFSOCK:
		return !Disarm(number) && isInternet(number)
	case unix.S_IFREG, unix.S_IFDIR:
		return isLocal(number)
	}
	return false
}

// isInternet tells a socket that waits for nothing but what SO_LINGER says. One of the
// local kind has others in its queue, perhaps.
func isInternet(socket int) bool {
	protocol, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil {
		return false
	}
	domain, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && (domain == unix.AF_INET || domain == unix.AF_INET6) && (protocol == unix.IPPROTO_TCP || protocol == unix.IPPROTO_UDP)
}

// isLocal tells a file that no other process or machine is asked about when it is closed.
func isLocal(number int) bool {
	var stat unix.Statfs_t
	if unix.Fstatfs(number, &stat) != nil {
		return false
	}
	switch int64(stat.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC:
		return true
	}
	return false
}

// elsewhere is where descriptors of the whole process are closed: threads are its, too.
var elsewhere = newCloser()

// A closer runs what may take long in a few goroutines, which end when there is nothing
// more to do.
type closer struct {
	mu      sync.Mutex
	room    sync.Cond // signalled when fewer wait
	waiting []func()
	running int
}

func newCloser() *closer {
	c := &closer{}
	c.room.L = &c.mu
	return c
}

func (c *closer) isFull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) >= waitingMax
}

// runOrWait waits while very many others do.
func (c *closer) runOrWait(task func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) >= waitingMax {
		c.room.Wait()
	}
	c.runLocked(task)
}

func (c *closer) run(task func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runLocked(task)
}

func (c *closer) runLocked(task func()) {
	c.waiting = append(c.waiting, task)
	if c.running < closersMax {
		c.running++
		go c.work()
	}
}

func (c *closer) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) > 0 {
		task := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.room.Signal()
		c.mu.Unlock()
		task()
		c.mu.Lock()
	}
	c.running--
}
