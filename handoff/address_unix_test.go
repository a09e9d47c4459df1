//go:build unix

package handoff_test

import (
	"path/filepath"
	"testing"
)

func newAddress(t *testing.T) string { return "unix:" + filepath.Join(t.TempDir(), "backend.sock") }

// needsSockets is for tests that give sockets, which every Unix can.
func needsSockets(*testing.T) {}
