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

// watchFile watches both a symbolic link and what it leads to.
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
	return place.StatOf(path) // after it, so that no change is missed
}

// watchAbove is for what a file is not told: a directory that is renamed, a link that
// leads elsewhere. What may not be watched there is noticed by who takes a run.
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

// watched is what the files of Options.Watch were when the resident started: who is
// about to take a run compares, for what watches them may be late.
type watched struct {
	paths []string
	were  []string // identities; missing: there was no such file
}

const missing = "-"

func watchedNow(paths []string) watched {
	w := watched{paths: paths}
	for _, path := range paths {
		w.were = append(w.were, identityOf(path))
	}
	return w
}

// watchedBefore is for workers: text is that of their supervisor's.
func watchedBefore(paths []string, text string) watched {
	return watched{paths: paths, were: strings.Split(text, ",")}
}

func (w watched) text() string { return strings.Join(w.were, ",") }

// changed returns the path of a file that is not what it was, or "".
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
