package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// ErrNotActivated is what ActivationListeners returns when the program was not started
// by socket activation.
var ErrNotActivated = errors.New("nearcall: not started by socket activation (LISTEN_PID, LISTEN_FDS)")

// firstActivationDescriptor is the number of the first socket that systemd passes.
const firstActivationDescriptor = 3

// ActivationListeners returns the listening sockets that systemd, or another service
// manager with the same protocol, has passed to this process. Call it once, when the
// program starts: the listeners take over the descriptors.
func ActivationListeners() ([]net.Listener, error) {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, ErrNotActivated
	}
	count, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || count < 1 {
		return nil, ErrNotActivated
	}
	listeners := make([]net.Listener, 0, count)
	for i := range count {
		file := os.NewFile(uintptr(firstActivationDescriptor+i), "LISTEN_FD_"+strconv.Itoa(i))
		listener, err := net.FileListener(file)
		if err != nil {
			return nil, fmt.Errorf("nearcall: descriptor %d passed by the service manager: %w", firstActivationDescriptor+i, err)
		}
		file.Close()
		listeners = append(listeners, listener)
	}
	return listeners, nil
}
