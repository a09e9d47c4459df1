//go:build linux

// Command many-machines is what `run` starts: it makes hosts a, b and c, starts a server on b and
// on c and callers on a, does to the hosts what a file of events says, and prints what the
// callers saw.
//
//	many-machines PROGRAMS EVENTS
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/tests/machines/network"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: many-machines PROGRAMS EVENTS")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := perform(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "many-machines:", err)
		os.Exit(1)
	}
}

func perform(ctx context.Context, programs, path string) error {
	events, err := readEvents(path)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "many-machines-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	n, err := network.New()
	if err != nil {
		return err
	}
	// Ends all that was started, and the hosts.
	defer n.Close()
	s := &scene{programs: programs, folder: folder, servers: make(map[string]*service)}
	if err := s.build(n); err != nil {
		return err
	}
	begun, err := s.play(ctx, events)
	if err != nil {
		return err
	}
	return s.report(begun, events)
}

// A scene is the hosts, and what runs on them.
type scene struct {
	programs, folder string
	caller           *network.Host
	callers          *exec.Cmd
	servers          map[string]*service // by host
	names            []string            // of those hosts, in order
}

// build makes hosts and certificates and starts the servers.
func (s *scene) build(n *network.Network) (err error) {
	if s.caller, err = n.Join("a"); err != nil {
		return err
	}
	ca, err := newAuthority(s.folder)
	if err != nil {
		return err
	}
	for _, name := range []string{"b", "c"} {
		host, err := n.JoinFar(name)
		if err != nil {
			return err
		}
		if err := ca.issue(s.folder, host); err != nil {
			return err
		}
		s.names = append(s.names, name)
		s.servers[name] = newService(host, filepath.Join(s.programs, "server"), name, address(host),
			filepath.Join(s.folder, name+".pem"), filepath.Join(s.folder, name+".key"), filepath.Join(s.folder, name+".orders"))
		if err := s.servers[name].start(); err != nil {
			return err
		}
	}
	return nil
}

func address(host *network.Host) string { return "tls:" + host.Address.String() + ":7000" }

// play starts the callers and does one thing after the other. It returns when the callers began.
func (s *scene) play(ctx context.Context, events []event) (begun time.Time, err error) {
	b, c := s.servers["b"].host, s.servers["c"].host
	// Both hosts are equals: each call goes to the one of them that has less to do.
	s.callers = exec.Command(filepath.Join(s.programs, "caller"), address(b)+","+c.Address.String()+":7000?ca="+filepath.Join(s.folder, "ca.pem"))
	if s.callers.Stdout, err = os.Create(filepath.Join(s.folder, "calls")); err != nil {
		return begun, err
	}
	s.callers.Stderr = os.Stderr
	if err := s.caller.Start(s.callers); err != nil {
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
	return begun, errors.Join(s.callers.Process.Signal(syscall.SIGTERM), s.callers.Wait())
}
