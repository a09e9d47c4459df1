package client

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/nearcall/nearcall/internal/address"
)

// directoryOwner returns the owner of the directory that holds the socket of an
// address.
func directoryOwner(a address.Address) (userID uint32, ok bool) {
	if a.Abstract() {
		return 0, false
	}
	info, err := os.Stat(filepath.Dir(a.Target))
	if err != nil {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Uid, true
}
