//go:build !linux

package place

import "errors"

// StatOf is there on Linux only.
func StatOf(string) (Stat, error) { return Stat{}, errors.ErrUnsupported }

func checkPrivate(string) error { return errors.ErrUnsupported }

func canMakeIn(string) bool { return false }
