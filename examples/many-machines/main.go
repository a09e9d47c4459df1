//go:build linux

// Command many-machines is what `run` starts: it makes hosts a, b and c, starts a server on b and
// on c and callers on a, does to the hosts what a file of events says, and prints what the
// callers saw.
//
//	many-machines WAY EVENTS
//
// It is started in the repository's folder.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/nearcall/nearcall/tests/machines/network"
)

func main() {
	if len(os.Args) != 3 || ways[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: many-machines tls|gateway EVENTS")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := perform(ctx, ways[os.Args[1]], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "many-machines:", err)
		os.Exit(1)
	}
}

func perform(ctx context.Context, way func(*scene) error, path string) error {
	events, err := readEvents(path)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "many-machines-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	s, err := newScene(folder)
	if err != nil {
		return err
	}
	// Ends all that was started, and the hosts.
	defer s.network.Close()
	begun, err := s.play(ctx, way, events)
	if err == nil {
		err = s.report(begun, events)
	}
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(folder, "log"))
		os.Stderr.Write(said)
	}
	return err
}

// join makes the hosts. Links of those that serve can be delayed.
func (s *scene) join() (err error) {
	if s.hosts["a"], err = s.network.Join("a"); err != nil {
		return err
	}
	for _, name := range serving {
		if s.hosts[name], err = s.network.JoinFar(name); err != nil {
			return err
		}
	}
	return nil
}

func newScene(folder string) (s *scene, err error) {
	s = &scene{folder: folder, hosts: make(map[string]*network.Host), servers: make(map[string]*service), gateways: make(map[string]*service)}
	if s.network, err = network.New(); err != nil {
		return nil, err
	}
	if s.log, err = os.Create(filepath.Join(folder, "log")); err == nil {
		err = s.join()
	}
	if err == nil {
		err = s.certify()
	}
	if err != nil {
		s.network.Close()
	}
	return s, err
}
