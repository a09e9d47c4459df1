// Package resident finds residents where spec/resident.md puts them, and asks them
// how they are.
package resident

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nearcall/nearcall/internal/wire"
)

const (
	directoryName = "nearcall-resident"
	nameBytesMax  = 32
)

// fileName is PROGRAM-IDENTITY with the end that says what the file is.
var fileName = regexp.MustCompile(`^([A-Za-z0-9._-]+)-([0-9a-f]{16})\.(sock|lock|log)$`)

// A Place is where a version of a program is resident, or was.
type Place struct {
	Name     string // the last part of the program's path, as file names have it
	Identity string // of the program's file
	path     string // of its files, without their ends
}

func (p Place) Socket() string { return p.path + ".sock" }
func (p Place) Lock() string   { return p.path + ".lock" }
func (p Place) Log() string    { return p.path + ".log" }

// Directory returns where the residents of this user are, as a launcher with the same
// environment looks for them. An error says why nothing can be resident.
func Directory() (string, error) {
	runtime := os.Getenv("XDG_RUNTIME_DIR")
	if filepath.IsAbs(runtime) {
		directory := filepath.Join(runtime, directoryName)
		if err := os.Mkdir(directory, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			return directory, check(directory)
		}
	}
	directory := filepath.Join("/tmp", directoryName+"-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(directory, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return directory, check(directory)
}

// Places returns what is in a directory of residents, in the order of names.
func Places(directory string) ([]Place, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var places []Place
	for _, entry := range entries {
		parts := fileName.FindStringSubmatch(entry.Name())
		if parts == nil {
			continue
		}
		place := Place{Name: parts[1], Identity: parts[2], path: filepath.Join(directory, parts[1]+"-"+parts[2])}
		if !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return places, nil
}

// Of returns those of a program: by its name every version of it, by a path, which
// contains a slash, the one that is there now. Without a program they are all.
func Of(places []Place, program string) ([]Place, error) {
	if program == "" {
		return places, nil
	}
	identity := ""
	if strings.Contains(program, "/") {
		var err error
		if identity, err = identify(program); err != nil {
			return nil, err
		}
	}
	name := nameOf(program)
	return slices.DeleteFunc(slices.Clone(places), func(p Place) bool {
		return p.Name != name || identity != "" && p.Identity != identity
	}), nil
}

// nameOf is a program's name as it is in the names of its files.
func nameOf(program string) string {
	name := []byte(filepath.Base(program))
	for i, b := range name {
		if b > unicode.MaxASCII || !(unicode.IsLetter(rune(b)) || unicode.IsDigit(rune(b)) || strings.IndexByte("._-", b) >= 0) {
			name[i] = '_'
		}
	}
	return string(name[:min(len(name), nameBytesMax)])
}

// FailedStarts returns how many starts in a row came to nothing, and until when the
// program is run plainly because of them; the zero time when it is not.
func (p Place) FailedStarts() (count int, plainlyUntil time.Time, err error) {
	text, err := os.ReadFile(p.Lock())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, time.Time{}, nil
	}
	if err != nil || len(text) == 0 {
		return 0, time.Time{}, err
	}
	count, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("%s: %w", p.Lock(), err)
	}
	info, err := os.Stat(p.Lock())
	if err != nil || count < wire.ResidentStartsMax {
		return count, time.Time{}, err
	}
	return count, info.ModTime().Add(wire.ResidentGuardMs * time.Millisecond), nil
}
