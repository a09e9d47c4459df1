package handoff

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// The variables in which a service manager says which descriptors it has left open:
// those of systemd, and that of Server::Starter.
const (
	variableListenPID   = "LISTEN_PID"
	variableListenPIDFD = "LISTEN_PIDFDID" // newer systemd sets it beside LISTEN_PID, which is enough
	variableListenFDs   = "LISTEN_FDS"
	variableListenNames = "LISTEN_FDNAMES"
	variablePorts       = "SERVER_STARTER_PORT"

	firstDescriptor = 3
)

// Inherited returns the descriptors that were left open for this process when it was
// started: those of systemd (LISTEN_FDS with LISTEN_PID, named by LISTEN_FDNAMES), then
// those of Server::Starter (SERVER_STARTER_PORT). The latter have the names that
// Server::Starter uses, such as 127.0.0.1:8080, 8080, [::]:443, or a path. If there are
// none, and always on Windows, it returns none.
//
// A listening socket becomes the Listener of its Item. Anything else becomes the File:
// a datagram socket, a connection (net.FileConn makes a net.Conn of it), or what
// StoreFDs has stored. All of them belong to the caller. Close those that are not used;
// otherwise clients will connect to a socket that nobody serves.
//
// The descriptors are marked close-on-exec, and the variables are removed from the
// environment, so that programs which this one starts do not mistake them for their
// own. A second call therefore returns nothing. Call it early in main, before anything
// else looks at the environment. If it fails, it returns none and closes those that it
// could open.
func Inherited() ([]Item, error) {
	named, err := namedDescriptors()
	for _, variable := range []string{variableListenPID, variableListenPIDFD, variableListenFDs, variableListenNames, variablePorts} {
		err = errors.Join(err, os.Unsetenv(variable))
	}
	if err != nil {
		return nil, &Error{Op: "inherit", Err: err}
	}
	var items []Item
	for _, d := range named {
		item, err := inherit(d)
		if err != nil {
			closeItems(items)
			return nil, &Error{Op: "inherit", Err: fmt.Errorf("descriptor %d (%s): %w", d.number, d.name, err)}
		}
		items = append(items, item)
	}
	return items, nil
}

// A namedDescriptor is a descriptor of which a service manager has told us.
type namedDescriptor struct {
	number int
	name   string
}

func namedDescriptors() ([]namedDescriptor, error) {
	bySystemd, err := listenDescriptors(os.Getenv(variableListenPID), os.Getenv(variableListenFDs), os.Getenv(variableListenNames))
	if err != nil {
		return nil, err
	}
	byStarter, err := starterDescriptors(os.Getenv(variablePorts))
	if err != nil {
		return nil, err
	}
	named := append(bySystemd, byStarter...)
	seen := make(map[int]bool, len(named))
	for _, d := range named {
		if seen[d.number] {
			return nil, fmt.Errorf("descriptor %d is named twice", d.number)
		}
		seen[d.number] = true
	}
	return named, nil
}

// listenDescriptors returns nothing for variables that were meant for another process,
// from which this one has inherited its environment.
func listenDescriptors(pid, count, names string) ([]namedDescriptor, error) {
	if count == "" || pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	total, err := strconv.Atoi(count)
	if err != nil || total < 0 || total > descriptorsMax {
		return nil, fmt.Errorf("%s=%q is not a number of descriptors", variableListenFDs, count)
	}
	list := strings.Split(names, ":")
	named := make([]namedDescriptor, total)
	for i := range named {
		named[i].number = firstDescriptor + i
		if i < len(list) {
			named[i].name = list[i]
		}
	}
	return named, nil
}

// descriptorsMax keeps a number that is a mistake from becoming a large allocation. No
// process has more descriptors (fs.nr_open).
const descriptorsMax = 1 << 20

// starterDescriptors reads name=number;name=number. A path may contain "=".
func starterDescriptors(ports string) (named []namedDescriptor, err error) {
	if ports == "" {
		return nil, nil
	}
	for port := range strings.SplitSeq(ports, ";") {
		cut := strings.LastIndexByte(port, '=')
		if cut < 0 {
			return nil, fmt.Errorf("%s: %q is not of the form name=descriptor", variablePorts, port)
		}
		number, err := strconv.Atoi(port[cut+1:])
		if err != nil || number < 0 || number > descriptorsMax {
			return nil, fmt.Errorf("%s: %q does not end in a descriptor's number", variablePorts, port)
		}
		named = append(named, namedDescriptor{number, port[:cut]})
	}
	return named, nil
}

// inherit takes a descriptor over. The descriptor belongs to it, even if it fails.
func inherit(d namedDescriptor) (Item, error) {
	listening, err := prepareInherited(d.number)
	if err != nil {
		return Item{}, err
	}
	file := os.NewFile(uintptr(d.number), d.name)
	if !listening {
		return Item{Name: d.name, File: file}, nil
	}
	listener, err := net.FileListener(file)
	if errors.Is(err, syscall.EPROTONOSUPPORT) {
		// A family that package net does not know, such as AF_VSOCK.
		return Item{Name: d.name, File: file}, nil
	}
	_ = file.Close() // the listener has a duplicate
	return Item{Name: d.name, Listener: listener}, err
}
