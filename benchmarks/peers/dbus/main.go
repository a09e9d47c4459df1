// D-Bus, with a bus of its own.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"github.com/godbus/dbus/v5"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

// A peer is a server with its bus, or callers.
type peer struct{ bus *exec.Cmd }

func main() { program.Main(&peer{}) }

func (*peer) Configuration() string {
	return "a private dbus-daemon with the session bus's settings on a Unix socket, between both sides; its CPU counts as the server's; all callers share one connection"
}
func (*peer) Documentation() string { return "https://pkg.go.dev/github.com/godbus/dbus/v5" }
func (*peer) Module() string        { return "github.com/godbus/dbus/v5" }

const (
	busName = "com.github.nearcall.Peers"
	object  = dbus.ObjectPath("/com/github/nearcall/Peers")
	method  = "Echo"
)

type service struct{}

func (service) Echo(data []byte) ([]byte, *dbus.Error) { return data, nil }

func (p *peer) Serve(path string) (string, error) {
	address, err := p.startBus(path)
	if err != nil {
		return "", err
	}
	connection, err := dbus.Connect(address)
	if err != nil {
		return "", err
	}
	if err := connection.Export(service{}, object, busName); err != nil {
		return "", err
	}
	reply, err := connection.RequestName(busName, dbus.NameFlagDoNotQueue)
	if err == nil && reply != dbus.RequestNameReplyPrimaryOwner {
		err = fmt.Errorf("the bus refuses the name %s: reply %d", busName, reply)
	}
	return address, err
}

// startBus starts a bus, which ends with this process, and returns its address.
func (p *peer) startBus(path string) (string, error) {
	p.bus = exec.Command("dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address", "--address=unix:path="+path)
	p.bus.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// It warns of limits that only root can raise; that matters only when it fails.
	var said bytes.Buffer
	p.bus.Stderr = &said
	output, err := p.bus.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := p.bus.Start(); err != nil {
		return "", err
	}
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return "", errors.Join(fmt.Errorf("dbus-daemon tells no address: %w", err), p.bus.Wait(), errors.New(said.String()))
	}
	return strings.TrimSpace(address), nil
}

// Close ends the bus; how it ends does not matter.
func (p *peer) Close() error {
	err := p.bus.Process.Kill()
	_ = p.bus.Wait()
	return err
}

func (*peer) Open(address string, _, callers int) ([]calling.Echo, error) {
	connection, err := dbus.Connect(address)
	if err != nil {
		return nil, err
	}
	served := connection.Object(busName, object)
	return program.Shared(callers, func(request []byte) (answer []byte, err error) {
		err = served.Call(busName+"."+method, 0, request).Store(&answer)
		return answer, err
	}), nil
}
