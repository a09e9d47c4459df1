// Package place says where a program's resident is found: spec/resident.md, Place.
package place

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	directoryName   = "nearcall-resident"
	programBytesMax = 32
	identityDigits  = 16

	socketSuffix = ".sock"
	lockSuffix   = ".lock"
	logSuffix    = ".log"
)

// ErrUnsafe is returned for a directory that others could have made, or could write to.
var ErrUnsafe = errors.New("the directory of residents is not private to its user")

// A Stat is what tells one version of a program's file from another.
type Stat struct {
	Device, Inode, Size                uint64
	ModifiedSeconds, ModifiedNano      uint64
	ChangedSeconds, ChangedNanoseconds uint64
}

// Identity is part of the names of this version's resident.
func (s Stat) Identity() string {
	hash := fnv.New64a()
	var b []byte
	for _, number := range []uint64{s.Device, s.Inode, s.Size, s.ModifiedSeconds, s.ModifiedNano, s.ChangedSeconds, s.ChangedNanoseconds} {
		b = binary.LittleEndian.AppendUint64(b, number)
	}
	_, _ = hash.Write(b) // cannot fail
	return fmt.Sprintf("%0*x", identityDigits, hash.Sum64())
}

// A Place is where one version of one program is resident.
type Place struct {
	Directory string
	Program   string // the program's name as in file names
	Identity  string
}

// Of returns the place of the program that is found by a path.
func Of(path string) (Place, error) {
	directory, err := Directory()
	if err != nil {
		return Place{}, err
	}
	stat, err := StatOf(path)
	if err != nil {
		return Place{}, err
	}
	return Place{Directory: directory, Program: Named(path), Identity: stat.Identity()}, nil
}

// OfLock returns the place with this lock file.
func OfLock(path string) (Place, error) {
	p, ok := parse(filepath.Dir(path), filepath.Base(path), lockSuffix)
	if !ok || !filepath.IsAbs(path) {
		return Place{}, fmt.Errorf("%q is not the path of a resident's lock file", path)
	}
	return p, nil
}

// List returns the places of a directory that have a socket.
func List(directory string) ([]Place, error) { return withFile(directory, socketSuffix) }

// Traces returns the places that have any file: something is resident there, was, or
// could not be started.
func Traces(directory string) ([]Place, error) {
	return withFile(directory, socketSuffix, lockSuffix, logSuffix)
}

func withFile(directory string, suffixes ...string) ([]Place, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var places []Place
	for _, entry := range entries {
		for _, suffix := range suffixes {
			if p, ok := parse(directory, entry.Name(), suffix); ok && !slices.Contains(places, p) {
				places = append(places, p)
			}
		}
	}
	return places, nil
}

// Named returns the name that a program found by this path has in a Place.
func Named(path string) string { return cleaned(filepath.Base(path)) }

func parse(directory, name, suffix string) (Place, bool) {
	stem, found := strings.CutSuffix(name, suffix)
	dash := strings.LastIndexByte(stem, '-')
	if !found || dash < 1 || len(stem)-dash-1 != identityDigits {
		return Place{}, false
	}
	if _, err := strconv.ParseUint(stem[dash+1:], 16, 64); err != nil {
		return Place{}, false
	}
	return Place{Directory: directory, Program: stem[:dash], Identity: stem[dash+1:]}, true
}

// Socket is where launchers connect.
func (p Place) Socket() string { return p.path(socketSuffix) }

// Lock is what whoever starts or ends the resident holds.
func (p Place) Lock() string { return p.path(lockSuffix) }

// Log is what the resident says itself.
func (p Place) Log() string { return p.path(logSuffix) }

func (p Place) path(suffix string) string {
	return filepath.Join(p.Directory, p.Program+"-"+p.Identity+suffix)
}

// Directory makes the directory of this user's residents where there is none, and
// fails with ErrUnsafe where it is not the user's alone.
func Directory() (string, error) {
	path := first()
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return path, checkPrivate(path)
}

// first is where launchers with this environment look: in XDG_RUNTIME_DIR when the
// directory is there, or they can make it in one of this user's.
func first() string {
	base := os.Getenv("XDG_RUNTIME_DIR")
	path := filepath.Join(base, directoryName)
	if !filepath.IsAbs(base) {
		return temporary()
	}
	if _, err := os.Lstat(path); err == nil || errors.Is(err, os.ErrNotExist) && canMakeIn(base) {
		return path
	}
	return temporary()
}

func temporary() string { return fmt.Sprintf("/tmp/%s-%d", directoryName, os.Geteuid()) }

// Directories returns the directories that there are of this user's residents, and makes
// none: first the one where a launcher with this environment looks, which is an error when
// it is not the user's alone. The others are those of launchers of the same user's
// sessions and services; with an XDG_RUNTIME_DIR that no session has there are none.
func Directories() ([]string, error) {
	base, session := os.Getenv("XDG_RUNTIME_DIR"), fmt.Sprintf("/run/user/%d", os.Geteuid())
	candidates := []string{first()}
	if filepath.Clean(base) == session || !filepath.IsAbs(base) {
		for _, path := range []string{temporary(), filepath.Join(session, directoryName)} {
			if path != candidates[0] {
				candidates = append(candidates, path)
			}
		}
	}
	var there []string
	for i, path := range candidates {
		err := checkPrivate(path)
		if err == nil {
			there = append(there, path)
		} else if i == 0 && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return there, nil
}

// IsFirst tells whether a launcher with this environment looks there.
func IsFirst(directory string) bool { return directory == first() }

func cleaned(name string) string {
	if len(name) > programBytesMax {
		name = name[:programBytesMax]
	}
	b := []byte(name)
	for i, c := range b {
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !plain {
			b[i] = '_'
		}
	}
	return string(b)
}
