//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/tests/machines/network"
)

// What is built before: programs of this example, the command, and the Perl binding.
const (
	built   = "build/examples/many-machines/"
	command = "build/bin/nearcall"
	perl    = "build/perl"
)

// serving are the hosts that have servers.
var serving = []string{"b", "c"}

// A scene is the hosts, and what runs on them.
type scene struct {
	network           *network.Network
	folder            string
	log               *os.File // what all programs say
	hosts             map[string]*network.Host
	servers, gateways map[string]*service // by host
	callers           []string            // the command of those that call
}

// ways are how callers reach the servers.
var ways = map[string]func(*scene) error{"tls": (*scene).byTLS, "gateway": (*scene).byGateway}

func (s *scene) file(name string) string { return filepath.Join(s.folder, name) }

// byTLS starts servers at tls: addresses. Both hosts are equals: each call goes to the one that has
// less to do.
func (s *scene) byTLS() error {
	var places []string
	for _, name := range serving {
		place := s.hosts[name].Address.String() + ":7000"
		places = append(places, place)
		s.servers[name] = s.newService(name, false, built+"server", name, "tls:"+place, s.file(name+".orders"), s.file(name+".pem"), s.file(name+".key"))
	}
	s.callers = []string{built + "caller", "tls:" + strings.Join(places, ",") + "?ca=" + s.file("ca.pem")}
	return s.startAll(s.servers)
}

// byGateway starts servers at local sockets, and a gateway on each host. Callers, which are forked
// workers in Perl, know only the socket of the gateway on their own host.
func (s *scene) byGateway() error {
	for _, name := range serving {
		s.servers[name] = s.newService(name, false, built+"server", name, "unix:"+s.file(name+".sock"), s.file(name+".orders"))
		s.gateways[name] = s.newGateway(name, "--export", "shop=unix:"+s.file(name+".sock"))
	}
	address := "unix:" + s.file("gateway.sock")
	s.callers = []string{"perl", "-Mblib=" + perl, "examples/many-machines/caller.pl", address}
	s.gateways["a"] = s.newGateway("a", "--listen", address)
	if err := errors.Join(s.startAll(s.servers), s.startAll(s.gateways)); err != nil {
		return err
	}
	return awaitFunction(address)
}

// newGateway is a gateway with a NATS server of its own, which forms a cluster with those of the
// other hosts.
func (s *scene) newGateway(name string, more ...string) *service {
	arguments := []string{"gateway", "--host", name, "--cluster-listen", s.hosts[name].Address.String() + ":6222",
		"--nats-ca", s.file("ca.pem"), "--nats-cert", s.file(name + ".pem"), "--nats-key", s.file(name + ".key")}
	for other, host := range s.hosts {
		if other != name {
			arguments = append(arguments, "--route", "nats://"+host.Address.String()+":6222")
		}
	}
	return s.newService(name, true, append(append([]string{command}, arguments...), more...)...)
}

func (s *scene) startAll(services map[string]*service) error {
	for _, service := range services {
		if err := service.start(); err != nil {
			return err
		}
	}
	return nil
}

// awaitFunction waits until the gateway of the callers has heard of the others.
func awaitFunction(address string) error {
	for end := time.Now().Add(startTimeout); ; time.Sleep(50 * time.Millisecond) {
		list, err := exec.Command(command, "list", address).CombinedOutput()
		if strings.Contains(string(list), "order(") {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the gateway of host a does not know the function: %w", errors.Join(err, errors.New(string(list))))
		}
	}
}

// play starts the callers and does one thing after the other. It returns when the callers began.
func (s *scene) play(ctx context.Context, way func(*scene) error, events []event) (begun time.Time, err error) {
	if err := way(s); err != nil {
		return begun, err
	}
	callers := exec.Command(s.callers[0], s.callers[1:]...)
	if callers.Stdout, err = os.Create(s.file("calls")); err != nil {
		return begun, err
	}
	callers.Stderr = s.log
	if err := s.hosts["a"].Start(callers); err != nil {
		return begun, err
	}
	begun = time.Now()
	for i := range events {
		select {
		case <-ctx.Done():
			return begun, ctx.Err()
		case <-time.After(time.Until(begun.Add(events[i].at))):
		}
		fmt.Printf("%5.1f s  %s\n", events[i].at.Seconds(), events[i].text)
		events[i].from = time.Now()
		if err := s.do(events[i]); err != nil {
			return begun, fmt.Errorf("%s: %w", events[i].text, err)
		}
	}
	return begun, errors.Join(callers.Process.Signal(syscall.SIGTERM), callers.Wait())
}
