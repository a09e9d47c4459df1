// Package inheritance is what a resident's processes are started with: descriptors,
// and variables that tell of them. It keeps the descriptors to the process.
package inheritance

import (
	"strconv"
	"syscall"
)

// The variables. Lock, Socket and Directory are those of residents, Watched and
// Files those of workers.
const (
	ListenPID   = "LISTEN_PID"
	ListenFDs   = "LISTEN_FDS"
	ListenNames = "LISTEN_FDNAMES"
	Lock        = "NEARCALL_RESIDENT_LOCK"
	Socket      = "NEARCALL_RESIDENT_SOCKET"
	Directory   = "NEARCALL_RESIDENT_DIRECTORY"
	Watched     = "NEARCALL_RESIDENT_WATCHED"
	Files       = "NEARCALL_RESIDENT_FILES"
)

// IsVariable tells whether a variable is one of these.
func IsVariable(name string) bool {
	switch name {
	case ListenPID, ListenFDs, ListenNames, Lock, Socket, Directory, Watched, Files:
		return true
	}
	return false
}

// What ListenNames has in a resident and in a worker.
const (
	NamesResident = "nearcall-resident"
	NamesWorker   = "nearcall-resident:nearcall-lease:nearcall-queue"
)

// The descriptors. A resident has the first.
const (
	Listener = 3
	Lease    = 4
	Queue    = 5
)

// Resident tells that this process was started as one, whatever its arguments are by now.
func Resident() bool {
	pid, _ := syscall.Getenv(ListenPID)
	names, _ := syscall.Getenv(ListenNames)
	return names == NamesResident && pid == strconv.Itoa(syscall.Getpid())
}

// Worker tells that this process was started as a worker.
func Worker() bool {
	names, _ := syscall.Getenv(ListenNames)
	return names == NamesWorker
}

// Programs that are started before main would have the descriptors too: a listener that
// lets launchers wait when the resident is no more, and a lease that does not end with
// the worker. Go initializes packages in the order of what they import, and then of their
// paths: as this one imports nothing that is above package syscall or behind it in
// that order, os/exec and whoever imports it come later.
func init() {
	if Resident() || Worker() {
		syscall.CloseOnExec(Listener)
	}
	if Worker() {
		syscall.CloseOnExec(Lease)
		syscall.CloseOnExec(Queue)
	}
}
