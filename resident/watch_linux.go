package resident

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/place"
)

const watchedEvents = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVE_SELF | unix.IN_DELETE_SELF

// watch makes the resident leave when its program is no longer what it was.
func (r *resident) watch() error {
	files := append([]string{r.program}, r.options.Watch...)
	events, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("inotify_init1", err)
	}
	var before []place.Stat
	for _, path := range files {
		stat, err := watchFile(events, path)
		if err != nil {
			return errors.Join(err, unix.Close(events))
		}
		before = append(before, stat)
	}
	if before[0].Identity() != r.place.Identity {
		r.goAway(leaving{why: "its program was replaced while it started", outdated: true})
	}
	go r.awaitChange(os.NewFile(uintptr(events), "inotify"), files, before)
	return nil
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

func (r *resident) awaitChange(events *os.File, files []string, before []place.Stat) {
	buffer := make([]byte, unix.SizeofInotifyEvent+unix.NAME_MAX+1)
	for {
		if _, err := events.Read(buffer); err != nil {
			r.log.Error("files are not watched any more", "reason", err)
			return
		}
		for i, path := range files {
			if now, err := place.StatOf(path); err != nil || now != before[i] {
				r.goAway(leaving{why: path + " has changed", outdated: true})
				return
			}
		}
	}
}
