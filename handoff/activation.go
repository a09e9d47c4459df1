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

// The variables by which a service manager tells of the descriptors that it left
// open: systemd's, and those of Server::Starter.
const (
	variableListenPID   = "LISTEN_PID"
	variableListenPIDFD = "LISTEN_PIDFDID" // the same of newer systemd; the number suffices
	variableListenFDs   = "LISTEN_FDS"
	variableListenNames = "LISTEN_FDNAMES"
	variablePorts       = "SERVER_STARTER_PORT"

	firstDescriptor = 3
)

// Inherited returns the descriptors that whoever started this process left open
// for it: those of systemd (LISTEN_FDS with LISTEN_PID, and names of
// LISTEN_FDNAMES), then those of Server::Starter (SERVER_STARTER_PORT), whose
// names are what it calls them, as 127.0.0.1:8080, 8080, [::]:443 or a path. It
// returns none where there are none.
//
// A listening socket becomes the Listener of its Item, anything else its
// File: a datagram socket, a connection (net.FileConn makes one of it), or what StoreFDs had stored. All are the
// caller's: Close those that are not used, or clients will connect to a socket that
// nobody serves.
//
// The descriptors are marked close-on-exec and the variables removed from the
// environment, so that programs started by this one do not take them for theirs.
// So the second call returns nothing. Call it early, from main, before anything
// else looks at the environment. On an error none is returned, and those
// that could be opened are closed.
//
// There are none on Windows.
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

// A namedDescriptor is one that a service manager told of.
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

// listenDescriptors returns nothing for variables that were meant for another
// process, whose environment this one inherited.
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

// descriptorsMax keeps a number that is a mistake from becoming an allocation. No
// process has more descriptors (fs.nr_open).
const descriptorsMax = 1 << 20

// starterDescriptors reads name=number;name=number. A path may have a = in it.
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

// inherit takes a descriptor over. It owns it from here, also when it fails.
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
		// A family that package net does not know, as AF_VSOCK.
		return Item{Name: d.name, File: file}, nil
	}
	_ = file.Close() // the listener has a duplicate
	return Item{Name: d.name, Listener: listener}, err
}
