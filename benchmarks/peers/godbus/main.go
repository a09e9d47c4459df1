// D-Bus, by godbus, with a bus of its own.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/godbus/dbus/v5"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

func main() {
	program.Main(program.Peer{
		Connections: program.OneForAll,
		Configuration: "a private dbus-daemon with the session bus's settings on a Unix socket, between both sides; its CPU counts as the server's;" +
			" that an array of bytes is encoded byte by byte is this library's doing, not D-Bus's",
		Documentation: "https://pkg.go.dev/github.com/godbus/dbus/v5",
		Modules:       []string{"github.com/godbus/dbus/v5"},
		Versions:      daemonVersion,
		Serve:         serve,
		Open:          program.Shared(open),
	})
}

const (
	daemon  = "dbus-daemon"
	busName = "com.github.nearcall.Peers"
	object  = dbus.ObjectPath("/com/github/nearcall/Peers")
	method  = "Echo"
)

// daemonVersion is the last word of "D-Bus Message Bus Daemon 1.14.10".
func daemonVersion() ([]string, error) {
	text, err := exec.Command(daemon, "--version").Output()
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return []string{daemon + " " + line[strings.LastIndexByte(line, ' ')+1:]}, nil
}

type service struct{}

func (service) Echo(data []byte) ([]byte, *dbus.Error) { return data, nil }

func serve(path string) (program.Server, error) {
	bus, address, err := startBus(path)
	if err != nil {
		return program.Server{}, err
	}
	return program.Server{Address: address, Run: bus.Wait, Close: func() error { return end(bus) }}, export(address)
}

// end ends the bus, unless it has ended.
func end(bus *exec.Cmd) error {
	if err := bus.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// export takes the name on the bus.
func export(address string) error {
	connection, err := dbus.Connect(address)
	if err != nil {
		return err
	}
	if err := connection.Export(service{}, object, busName); err != nil {
		return err
	}
	reply, err := connection.RequestName(busName, dbus.NameFlagDoNotQueue)
	if err == nil && reply != dbus.RequestNameReplyPrimaryOwner {
		err = fmt.Errorf("the bus refuses the name %s: reply %d", busName, reply)
	}
	return err
}

// startBus starts a bus, which ends with this process, and returns its address.
func startBus(path string) (*exec.Cmd, string, error) {
	// It would end with the thread that has started it.
	runtime.LockOSThread()
	bus := exec.Command(daemon, "--session", "--nofork", "--nopidfile", "--print-address", "--address=unix:path="+path)
	bus.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// It warns of limits that only root can raise; that matters only when it fails.
	var said bytes.Buffer
	bus.Stderr = &said
	output, err := bus.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := bus.Start(); err != nil {
		return nil, "", err
	}
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("%s tells no address: %w", daemon, err), bus.Wait(), errors.New(said.String()))
	}
	return bus, strings.TrimSpace(address), nil
}

func open(address string) (calling.Echo, error) {
	connection, err := dbus.Connect(address)
	if err != nil {
		return nil, err
	}
	served := connection.Object(busName, object)
	return func(request []byte) (answer []byte, err error) {
		err = served.Call(busName+"."+method, 0, request).Store(&answer)
		return answer, err
	}, nil
}
