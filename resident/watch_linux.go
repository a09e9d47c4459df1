package resident

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/place"
)

const watchedEvents = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVE_SELF | unix.IN_DELETE_SELF

// watch makes the resident leave when its program has changed. If that cannot be
// watched, an outdated resident stays until it is idle. No launcher finds it any more,
// because the name of its socket contains the identity of the file.
func (r *resident) watch() {
	events, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		r.log.Warn("files are not watched", "reason", os.NewSyscallError("inotify_init1", err))
		return
	}
	before := make(map[string]place.Stat)
	for _, path := range slices.Concat([]string{r.program}, mapped(r.program), r.options.Watch) {
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
	if path := r.guard.watched.changed(); path != "" {
		r.goAway(leaving{why: path + " has changed", outdated: true})
	}
	_, _ = unix.InotifyAddWatch(events, r.place.Socket(), watchedEvents)
	if !r.isFound() {
		r.goAway(gone())
	}
	go r.awaitChange(os.NewFile(uintptr(events), "inotify"), before)
}

// watchFile watches a symbolic link as well as what it leads to.
func watchFile(events int, path string) (place.Stat, error) {
	for _, flag := range []uint32{0, unix.IN_DONT_FOLLOW} {
		if _, err := unix.InotifyAddWatch(events, path, watchedEvents|flag); err != nil {
			return place.Stat{}, &os.PathError{Op: "inotify_add_watch", Path: path, Err: err}
		}
	}
	watchAbove(events, path)
	if target, err := filepath.EvalSymlinks(path); err == nil {
		watchAbove(events, target)
	}
	return place.StatOf(path) // after the watch is set, so that no change is missed
}

// watchAbove watches for changes above a file that the file does not show: a directory
// that is renamed, or a link that leads elsewhere. What may not be watched there is
// noticed when a run is taken.
func watchAbove(events int, path string) {
	for path != filepath.Dir(path) {
		path = filepath.Dir(path)
		_, _ = unix.InotifyAddWatch(events, path, unix.IN_MOVE_SELF|unix.IN_DELETE_SELF|unix.IN_DONT_FOLLOW|unix.IN_MASK_ADD)
	}
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
		if !r.isFound() {
			r.goAway(gone())
		}
	}
}

// watched holds what the files of Options.Watch were when the resident started. A
// process that is about to take a run compares them, because watching may tell too
// late.
type watched struct {
	paths []string
	were  []string // identities, or missing if there was no such file
}

const missing = "-"

func watchedNow(paths []string) watched {
	w := watched{paths: paths}
	for _, path := range paths {
		w.were = append(w.were, identityOf(path))
	}
	return w
}

// watchedBefore makes a worker's watched from the text of its supervisor's.
func watchedBefore(paths []string, text string) watched {
	return watched{paths: paths, were: strings.Split(text, ",")}
}

func (w watched) text() string { return strings.Join(w.were, ",") }

// changed returns the path of a file that has changed, or "".
func (w watched) changed() string {
	for i, path := range w.paths {
		if i >= len(w.were) || w.were[i] != missing && w.were[i] != identityOf(path) {
			return path
		}
	}
	return ""
}

func identityOf(path string) string {
	stat, err := place.StatOf(path)
	if err != nil {
		return missing
	}
	return stat.Identity()
}
