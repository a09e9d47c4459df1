package resident

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/place"
)

const watchedEvents = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVE_SELF | unix.IN_DELETE_SELF

// watch makes the resident leave when its program is no longer what it was. Where
// that cannot be watched, an outdated resident stays until it is idle; no launcher
// finds it any more, for the name of its socket has the file's identity.
func (r *resident) watch() {
	events, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		r.log.Warn("files are not watched", "reason", os.NewSyscallError("inotify_init1", err))
		return
	}
	before := make(map[string]place.Stat)
	for _, path := range append([]string{r.program}, r.options.Watch...) {
		stat, err := watchFile(events, path)
		if err != nil {
			r.log.Warn("a file is not watched", "reason", err)
			continue
		}
		before[path] = stat
	}
	if stat, watched := before[r.program]; watched && stat.Identity() != r.place.Identity {
		r.goAway(leaving{why: r.program + " was replaced while it started", outdated: true})
	}
	go r.awaitChange(os.NewFile(uintptr(events), "inotify"), before)
}

// watchFile watches both a symbolic link and what it leads to.
func watchFile(events int, path string) (place.Stat, error) {
	for _, flag := range []uint32{0, unix.IN_DONT_FOLLOW} {
		if _, err := unix.InotifyAddWatch(events, path, watchedEvents|flag); err != nil {
			return place.Stat{}, &os.PathError{Op: "inotify_add_watch", Path: path, Err: err}
		}
	}
	return place.StatOf(path) // after it, so that no change is missed
}

func (r *resident) awaitChange(events *os.File, before map[string]place.Stat) {
	buffer := make([]byte, unix.SizeofInotifyEvent+unix.NAME_MAX+1)
	for {
		if _, err := events.Read(buffer); err != nil {
			r.log.Error("files are not watched any more", "reason", err)
			return
		}
		for path, was := range before {
			if now, err := place.StatOf(path); err != nil || now != was {
				r.goAway(leaving{why: path + " has changed", outdated: true})
				return
			}
		}
	}
}
