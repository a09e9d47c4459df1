// Package inspect finds the residents of this user, asks them for their state, and
// tells them to leave. It never starts one.
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

// ErrNotRunning means that nobody listens at a place.
var ErrNotRunning = errors.New("no resident runs")

// A Place is where one version of a program is resident, was resident, or could not be
// started.
type Place struct {
	Name     string // the last part of the program's path, as it appears in file names
	Identity string // identifies the program's file
	Socket   string // paths of its files, which need not exist
	Lock     string
	Log      string
	// Directory is where the files are, if that is not the directory in which launchers
	// look that are started with this environment. Otherwise it is empty.
	Directory string
}

// A Report is what a resident says about itself.
type Report struct {
	Program   string
	ProcessID int
	Mode      string
	Started   time.Time
	Idle      time.Duration // after which it leaves; negative if it stays
	Runs      uint64        // runs that have ended
	Running   int           // runs at this moment
	Waiting   int           // processes of a pool that wait for a run
	Leaving   bool          // it takes no more runs
	// What the program was seen to read before its runs, or says that it reads: names
	// of variables, with "*" for all; the directory in which it was, or ""; and whether
	// it looked at its standard input.
	Reads          []string
	ReadsDirectory string
	ReadsInput     bool
	// Text is the report as it arrived: a JSON object, which may have members that are
	// not known here.
	Text json.RawMessage
}

// Places returns the places of a program. A program that is given by its name has the
// places of all its versions; one that is given by a path, which contains a slash, has
// the place of the version that is there now. For "" it returns all places of this
// user, ordered by name.
//
// They lie in the directory in which a launcher with the same environment looks, and in
// those of the user's sessions and services, which may have another. Places creates
// none of these. An error says why no program can be resident.
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

// PlacesIn returns the places in one directory, which may belong to another
// environment.
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

// FailedStarts returns how many starts in a row have failed, and until when the program
// is run plainly because of that. The time is zero if it is not.
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

// guard returns how long a program is run plainly after so many failed starts. Each
// further one doubles the time.
func guard(starts int) time.Duration {
	const longest = wire.ResidentGuardMs * time.Millisecond
	d := wire.ResidentGuardFirstMs * time.Millisecond
	for ; starts > wire.ResidentStartsMax && d < longest; starts-- {
		d *= 2
	}
	return min(d, longest)
}

// FailedProgram returns the path of the program whose last start has failed, or "" if
// that is not known.
func (p Place) FailedProgram() string {
	text, err := os.ReadFile(p.Lock)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	path, _, _ := strings.Cut(rest, "\n")
	return path
}

// ForgetStarts forgets failed starts, so that the next run starts a resident again.
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
