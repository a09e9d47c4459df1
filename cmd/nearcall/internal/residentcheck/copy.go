package residentcheck

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// What is copied for each run. More is somebody's home, and not what a program works on.
const (
	copiedBytesMax = 512 << 20
	copiedFilesMax = 100_000
)

// A copied is a directory that is put back before each run to what its source is. What
// runs have not touched stays the file that it was, as residents look at files that they
// have loaded.
type copied struct {
	source string
	path   string
	apart  fs.FileInfo     // the directory that copies are in, and which is in no copy itself
	marks  map[string]mark // of what was copied, by paths below it
}

// newCopy copies a directory to a path within another one. Nothing below it is left out but
// that other one, and what is neither a file, a directory nor a link.
func newCopy(source, path, apart string) (*copied, error) {
	info, err := os.Stat(apart)
	if err != nil {
		return nil, err
	}
	c := &copied{source: source, path: path, apart: info, marks: map[string]mark{}}
	if err := c.isSmall(); err != nil {
		return nil, err
	}
	return c, c.putBack()
}

// walkSource is for what is to be copied. Temporary directories may be below the source: without
// an end the copy would be copied into itself.
func (c *copied) walkSource(call func(path string, info fs.FileInfo) error) error {
	return walk(c.source, func(path string, info fs.FileInfo) error {
		if os.SameFile(info, c.apart) {
			return fs.SkipDir
		}
		return call(path, info)
	})
}

func (c *copied) isSmall() error {
	files, bytes := 0, int64(0)
	return c.walkSource(func(path string, info fs.FileInfo) error {
		files++
		if info.Mode().IsRegular() {
			bytes += info.Size()
		}
		if files > copiedFilesMax || bytes > copiedBytesMax {
			return fmt.Errorf("%s is too large to be copied (over %d files, or %d MiB): run this in a smaller directory, or name one by --directory",
				c.source, copiedFilesMax, copiedBytesMax>>20)
		}
		return nil
	})
}

// putBack makes the copy what its source is.
func (c *copied) putBack() error {
	if err := c.removeChanged(); err != nil {
		return err
	}
	times := map[string]time.Time{}
	err := c.walkSource(func(path string, info fs.FileInfo) error {
		if info.IsDir() {
			times[path] = info.ModTime()
		}
		if _, known := c.marks[path]; known {
			return nil
		}
		if err := copyOne(filepath.Join(c.source, path), filepath.Join(c.path, path), info); err != nil {
			return err
		}
		return c.mark(path)
	})
	for path, at := range times {
		err = errors.Join(err, os.Chtimes(filepath.Join(c.path, path), at, at))
	}
	return err
}

func (c *copied) mark(path string) error {
	info, err := os.Lstat(filepath.Join(c.path, path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // what is not copied
	}
	if err == nil {
		c.marks[path] = markOf(info)
	}
	return err
}

// removeChanged removes what runs have made or changed, and forgets what they removed.
func (c *copied) removeChanged() error {
	there := map[string]bool{}
	err := walk(c.path, func(path string, info fs.FileInfo) error {
		if c.marks[path] == markOf(info) {
			there[path] = true
			return nil
		}
		delete(c.marks, path)
		if err := os.RemoveAll(filepath.Join(c.path, path)); err != nil || !info.IsDir() {
			return err
		}
		return fs.SkipDir
	})
	for path := range c.marks {
		if !there[path] {
			delete(c.marks, path)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the first time
	}
	return err
}

// changes are what the last run has left other than it was: for each path what is there
// now, in words for people.
func (c *copied) changes() (map[string]string, error) {
	changed, there := map[string]string{}, map[string]bool{}
	err := walk(c.path, func(path string, info fs.FileInfo) error {
		there[path] = true
		if c.marks[path] == markOf(info) || isOfInterpreter(path) {
			return nil
		}
		now, err := describe(filepath.Join(c.path, path), info)
		if err != nil {
			return err
		}
		if before, err := os.Lstat(filepath.Join(c.source, path)); err == nil {
			if was, err := describe(filepath.Join(c.source, path), before); err == nil && was == now {
				return nil
			}
		}
		changed[path] = now
		return nil
	})
	for path := range c.marks {
		if !there[path] && !isOfInterpreter(path) {
			changed[path] = "removed"
		}
	}
	return changed, err
}

// isOfInterpreter reports whether a file is what Python keeps of a module that it has compiled.
// The first process that loads the module writes it, which is the resident's start and no run.
func isOfInterpreter(path string) bool {
	return strings.HasSuffix(path, ".pyc") || filepath.Base(path) == "__pycache__"
}

// walk calls for everything below a directory, and for it, as ".".
func walk(directory string, call func(path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(directory, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return call(below, info)
	})
}

func copyOne(from, to string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		return os.Chmod(to, info.Mode().Perm()|0o700)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case info.Mode().IsRegular():
		return copyFile(from, to, info)
	}
	return nil
}

func copyFile(from, to string, info fs.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// describe says what is there, so that what is described alike is alike.
func describe(path string, info fs.FileInfo) (string, error) {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return "a link to " + target, err
	case !info.Mode().IsRegular():
		return info.Mode().String(), nil
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Sprintf("%v, %d bytes that cannot be read", info.Mode(), info.Size()), nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%v, %d bytes, sha256 %.16x", info.Mode(), info.Size(), sum.Sum(nil)), nil
}
