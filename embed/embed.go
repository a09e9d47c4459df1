package embed

import (
	"context"
	"errors"
	"sync"

	"github.com/nearcall/nearcall/server"
)

var (
	errNoServer   = errors.New("the library's package main does not call embed.Serve: call it in a function init with the server that has the functions")
	errTwoServers = errors.New("the library calls embed.Serve more than once: register all functions with one server")
)

// A library is what the exported functions share, which get no receiver: one for
// the process, because it can hold but one Go library.
type library struct {
	mu      sync.Mutex
	server  *server.Server
	err     error
	started bool
	direct  *server.Direct // immutable once started
}

var loaded library

// Serve makes the functions of s callable by the program that loads this library.
// It belongs in a function init of package main, and returns at once: nothing is
// served before the library is used through an embed: address. A mistake, such as
// a second call, is told to whoever opens the library.
func Serve(s *server.Server) {
	loaded.mu.Lock()
	defer loaded.mu.Unlock()
	if loaded.server != nil {
		loaded.err = errTwoServers
	}
	loaded.server = s
}

// start begins to serve others, once.
func (l *library) start(file string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started || l.err != nil {
		return l.err
	}
	if l.server == nil {
		return errNoServer
	}
	l.err = l.serve(file)
	l.started = l.err == nil
	return l.err
}

// serve lasts as long as the process: it is the host that stops.
func (l *library) serve(file string) error {
	direct, err := l.server.Direct()
	if err != nil {
		return err
	}
	where, err := makePlace(file)
	if err != nil {
		return err
	}
	listener, err := where.listen(context.Background())
	if err != nil {
		return err
	}
	l.direct = direct
	go direct.Serve(context.Background(), listener)
	return nil
}
