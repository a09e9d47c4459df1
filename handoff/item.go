package handoff

import (
	"errors"
	"net"
	"os"
)

// An Item is a listener or a file that came from another process.
type Item struct {
	Name     string
	Listener net.Listener // nil: it is a file
	File     *os.File     // nil: it is a listener
	Meta     Meta
}

// Close closes what the item holds. To close a Unix listener leaves its file to
// whoever made it.
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
