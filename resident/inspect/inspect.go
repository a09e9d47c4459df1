// Package inspect finds the residents of this user, asks them how they are, and tells
// them to leave. It starts none.
package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/resident/internal/place"
	"github.com/nearcall/nearcall/resident/internal/request"
)

// ErrNotRunning is returned when nobody listens at a place.
var ErrNotRunning = errors.New("no resident runs")

// A Place is where one version of a program is resident, was, or could not be started.
type Place struct {
	Name     string // the last part of the program's path, as file names have it
	Identity string // of the program's file
	Socket   string // the paths of its files, which need not exist
	Lock     string
	Log      string
	// Directory is where they are, when that is not where launchers look that are started
	// with this environment; else empty.
	Directory string
}

// A Report is what a resident says of itself.
type Report struct {
	Program   string
	ProcessID int
	Mode      string
	Started   time.Time
	Idle      time.Duration // after which it leaves; negative: never
	Runs      uint64        // that have ended
	Running   int           // now
	Waiting   int           // processes of a pool that wait for a run
	Leaving   bool          // it takes no more
	// What the program was seen to read before its runs, or says that it reads: names of variables,
	// "*" for all, the directory it was in, or "", and whether standard input.
	Reads          []string
	ReadsDirectory string
	ReadsInput     bool
	// Text is the report as it came, a JSON object with what is not known here too.
	Text json.RawMessage
}

// Places returns the places of a program: by its name those of every version, by a path,
// which contains a slash, that of the version that is there now. Without a program they
// are all places of this user, in the order of names.
//
// They are in the directory where a launcher with the same environment looks, and in
// those of the user's sessions and services, which may have another. None is made. An
// error says why nothing can be resident.
func Places(program string) ([]Place, error) {
	directories, err := place.Directories()
	if err != nil {
		return nil, err
	}
	var found []place.Place
	for _, directory := range directories {
		traces, err := place.Traces(directory)
		if err != nil {
			return nil, err
		}
		found = append(found, traces...)
	}
	if strings.Contains(program, "/") {
		now, err := place.StatOf(program)
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(p place.Place) bool {
			return p.Program != place.Named(program) || p.Identity != now.Identity()
		})
	} else if program != "" {
		found = slices.DeleteFunc(found, func(p place.Place) bool { return p.Program != place.Named(program) })
	}
	var places []Place
	for _, p := range found {
		made := placeOf(p)
		if !place.IsFirst(p.Directory) {
			made.Directory = p.Directory
		}
		places = append(places, made)
	}
	return places, nil
}

// PlacesIn returns the places of one directory, which may be that of another environment.
func PlacesIn(directory string) (places []Place, err error) {
	found, err := place.Traces(directory)
	for _, p := range found {
		places = append(places, placeOf(p))
	}
	return places, err
}

func placeOf(p place.Place) Place {
	return Place{Name: p.Program, Identity: p.Identity, Socket: p.Socket(), Lock: p.Lock(), Log: p.Log()}
}

// FailedStarts returns how many starts in a row came to nothing, and until when the
// program is run plainly because of them; the zero time when it is not.
func (p Place) FailedStarts() (count int, plainlyUntil time.Time, err error) {
	text, err := os.ReadFile(p.Lock)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, time.Time{}, nil
	}
	if err != nil || len(text) == 0 {
		return 0, time.Time{}, err
	}
	// More lines may follow.
	digits, _, _ := strings.Cut(string(text), "\n")
	if count, err = strconv.Atoi(strings.TrimSpace(digits)); err != nil {
		return 0, time.Time{}, fmt.Errorf("%s: %w", p.Lock, err)
	}
	info, err := os.Stat(p.Lock)
	if err != nil || count < wire.ResidentStartsMax {
		return count, time.Time{}, err
	}
	return count, info.ModTime().Add(guard(count)), nil
}

// guard is twice as long with each start that came to nothing.
func guard(starts int) time.Duration {
	const longest = wire.ResidentGuardMs * time.Millisecond
	d := wire.ResidentGuardFirstMs * time.Millisecond
	for ; starts > wire.ResidentStartsMax && d < longest; starts-- {
		d *= 2
	}
	return min(d, longest)
}

// FailedProgram returns the path of the program whose last start came to nothing, so far
// as it is known; else "".
func (p Place) FailedProgram() string {
	text, err := os.ReadFile(p.Lock)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	path, _, _ := strings.Cut(rest, "\n")
	return path
}

// ForgetStarts forgets those that came to nothing, so that the next run starts a resident
// again.
func (p Place) ForgetStarts() error {
	err := os.Truncate(p.Lock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func parseReport(text string) (*Report, error) {
	var s request.State
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("the resident's report cannot be read: %w", err)
	}
	return &Report{Program: s.Program, ProcessID: s.ProcessID, Mode: s.Mode, Started: time.UnixMilli(s.StartedMS),
		Idle: time.Duration(s.IdleMS) * time.Millisecond, Runs: s.Runs, Running: s.Running, Waiting: s.Waiting, Leaving: s.Leaving,
		Reads: s.Reads, ReadsDirectory: s.ReadsDirectory, ReadsInput: s.ReadsInput,
		Text: json.RawMessage(text)}, nil
}
