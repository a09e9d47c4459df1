package residentcheck

import (
	"io/fs"
	"syscall"
)

// A mark changes when a file is touched, even if its size and time are set back.
type mark struct {
	mode    fs.FileMode
	inode   uint64
	changed syscall.Timespec
}

// markOf a directory is that it is one: what is in it has marks of its own.
func markOf(info fs.FileInfo) mark {
	if info.IsDir() {
		return mark{mode: info.Mode()}
	}
	m := mark{mode: info.Mode()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		m.inode, m.changed = stat.Ino, stat.Ctim
	}
	return m
}
