package command

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether a person reads what is written to the file.
func isTerminal(file *os.File) bool {
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
