//go:build !linux

package handoff

import (
	"errors"
	"fmt"
)

func (n *notifier) sendDescriptor(string, uintptr) error {
	return fmt.Errorf("%w: only systemd keeps descriptors", errors.ErrUnsupported)
}
