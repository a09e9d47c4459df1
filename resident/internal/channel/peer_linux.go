package channel

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/peercred"
)

// Peer returns who is at the other end, as the kernel says.
func (c *Conn) Peer() (peercred.Credentials, error) { return peercred.Get(c.socket) }

// Surroundings are what a program sees besides what a launcher passes: groups, root
// directory, namespaces and standing of its process.
type Surroundings struct {
	group      uint32
	groups     []uint32
	root       placeID
	namespaces [len(namespaces)]string
	standing   standing
}

// A placeID is that of a file, the same for two processes that share it.
type placeID struct{ device, inode uint64 }

var namespaces = [...]struct{ file, name string }{
	{"ns/mnt", "mount namespace"},
	{"ns/net", "network namespace"},
	{"ns/user", "user namespace"},
	{"ns/pid", "process namespace"},
	{"ns/uts", "host name namespace"},
	{"ns/ipc", "IPC namespace"},
	{"ns/cgroup", "control group namespace"},
	{"ns/time", "time namespace"},
	{"ns/pid_for_children", "process namespace for children"},
	{"ns/time_for_children", "time namespace for children"},
}

// OwnSurroundings returns those of this process.
func OwnSurroundings() (Surroundings, error) {
	groups, err := os.Getgroups()
	if err != nil {
		return Surroundings{}, err
	}
	s := Surroundings{group: uint32(os.Getegid())}
	for _, group := range groups {
		s.groups = append(s.groups, uint32(group))
	}
	slices.Sort(s.groups)
	directory, err := openProcess("self")
	if err != nil {
		return Surroundings{}, err
	}
	defer func() { _ = unix.Close(directory) }()
	if s.root, err = rootOf(directory); err != nil {
		return Surroundings{}, err
	}
	for i := range namespaces {
		if s.namespaces[i], err = namespaceOf(directory, i); err != nil {
			return Surroundings{}, err
		}
	}
	s.standing, err = standingOf(directory, 0, nil)
	return s, err
}

func rootOf(directory int) (placeID, error) {
	var s unix.Stat_t
	if err := unix.Fstatat(directory, "root", &s, 0); err != nil {
		return placeID{}, &os.PathError{Op: "stat", Path: "root", Err: err}
	}
	return placeID{device: uint64(s.Dev), inode: s.Ino}, nil
}

// namespaceOf returns the name that the kernel gives it, which takes half as long to ask for
// as its number; "" for namespaces that the kernel does not have.
func namespaceOf(directory, i int) (string, error) {
	var name [64]byte
	n, err := unix.Readlinkat(directory, namespaces[i].file, name[:])
	if err != nil && err != unix.ENOENT {
		return "", &os.PathError{Op: "readlink", Path: namespaces[i].file, Err: err}
	}
	return string(name[:max(n, 0)]), nil
}

// Difference returns what is not the same for the process at the other end, or an
// empty string. What it says itself is its session keyring, which nobody else can ask for.
func (s Surroundings) Difference(c *Conn, peer peercred.Credentials, keyring uint32) string {
	if err := peer.LoadGroups(c.socket); err != nil {
		return fmt.Sprintf("the caller's groups are not known: %v", err)
	}
	slices.Sort(peer.Groups)
	if peer.GroupID != s.group || !slices.Equal(peer.Groups, s.groups) {
		return "the caller's groups are others"
	}
	if own := Keyring(); own != keyring || own == keyringUnknown {
		return "the caller's session keyring is another"
	}
	directory, err := openProcess(fmt.Sprint(peer.ProcessID))
	if err != nil {
		return fmt.Sprintf("the caller is not known: %v", err)
	}
	defer func() { _ = unix.Close(directory) }()
	if !c.isThere() {
		return "the caller has ended"
	}
	return s.differenceTo(directory, int(peer.ProcessID))
}

func (s Surroundings) differenceTo(directory, pid int) string {
	root, err := rootOf(directory)
	if err != nil {
		return fmt.Sprintf("the caller's root directory is not known: %v", err)
	}
	if root != s.root {
		return "the caller's root directory is another"
	}
	for i := range namespaces {
		theirs, err := namespaceOf(directory, i)
		if err != nil {
			return fmt.Sprintf("the caller's %s is not known: %v", namespaces[i].name, err)
		}
		if theirs != s.namespaces[i] {
			return fmt.Sprintf("the caller's %s is another", namespaces[i].name)
		}
	}
	theirs, err := standingOf(directory, pid, s.standing)
	if err != nil {
		return fmt.Sprintf("what the caller is allowed is not known: %v", err)
	}
	if name := s.standing.difference(theirs); name != "" {
		return fmt.Sprintf("the caller's %s is another", name)
	}
	return theirs.restriction()
}
