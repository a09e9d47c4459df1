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
// directory and namespaces of its process.
type Surroundings struct {
	group  uint32
	groups []uint32
	places [len(placeNames)]placeID
}

// A placeID is that of a file, the same for two processes that share it.
type placeID struct{ device, inode uint64 }

var placeNames = [...]struct{ file, name string }{
	{"root", "root directory"},
	{"ns/mnt", "mount namespace"},
	{"ns/net", "network namespace"},
	{"ns/user", "user namespace"},
	{"ns/pid", "process namespace"},
	{"ns/uts", "host name namespace"},
	{"ns/ipc", "IPC namespace"},
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
	for i := range placeNames {
		if s.places[i], err = placeOf("self", i); err != nil {
			return Surroundings{}, err
		}
	}
	return s, nil
}

func placeOf(process string, i int) (placeID, error) {
	var s unix.Stat_t
	path := "/proc/" + process + "/" + placeNames[i].file
	if err := unix.Stat(path, &s); err != nil {
		return placeID{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return placeID{device: uint64(s.Dev), inode: s.Ino}, nil
}

// Difference returns what is not the same for the process at the other end, or an
// empty string.
func (s Surroundings) Difference(c *Conn, peer peercred.Credentials) string {
	if err := peer.LoadGroups(c.socket); err != nil {
		return fmt.Sprintf("the caller's groups are not known: %v", err)
	}
	slices.Sort(peer.Groups)
	if peer.GroupID != s.group || !slices.Equal(peer.Groups, s.groups) {
		return "the caller's groups are others"
	}
	for i := range placeNames {
		theirs, err := placeOf(fmt.Sprint(peer.ProcessID), i)
		if err != nil {
			return fmt.Sprintf("the caller's %s is not known: %v", placeNames[i].name, err)
		}
		if theirs != s.places[i] {
			return fmt.Sprintf("the caller's %s is another", placeNames[i].name)
		}
	}
	return ""
}
