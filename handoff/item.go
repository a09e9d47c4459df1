package handoff

import (
	"errors"
	"net"
	"os"
)

// An Item is a listener or a file that came from another process.
type Item struct {
	Name     string
	Listener net.Listener // nil for a file
	File     *os.File     // nil for a listener
	Meta     Meta
}

// Close closes the listener or the file. Closing a Unix listener leaves its socket file
// in place, for the process that made it.
func (i Item) Close() error {
	var errs []error
	if i.Listener != nil {
		errs = append(errs, i.Listener.Close())
	}
	if i.File != nil {
		errs = append(errs, i.File.Close())
	}
	return errors.Join(errs...)
}

func closeItems(items []Item) {
	for _, item := range items {
		_ = item.Close()
	}
}
