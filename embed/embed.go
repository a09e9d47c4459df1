package embed

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"

	"github.com/nearcall/nearcall/internal/direct"
	"github.com/nearcall/nearcall/server"
)

var (
	errNoServer   = errors.New("the library's package main does not call embed.Serve: call it in a function init, with what registers the functions")
	errTwoServers = errors.New("the library calls embed.Serve more than once: register all functions with one server")
)

// A library is what the exported functions share. There is one for the process, because
// they have no receiver, and because a process can hold only one Go library.
type library struct {
	mu      sync.Mutex
	server  *server.Server
	err     error
	started bool
	direct  direct.Functions // does not change once started
}

var loaded library

// Serve makes the functions that register registers callable by the program that loads
// this library. It belongs in a function init of package main, calls register at once, and
// serves nothing before the library is used through an embed: address. What fails (an
// option of the server, register itself, a second call) is told to whoever opens the
// library.
func Serve(register func(s *server.Server) error, options ...server.Option) {
	loaded.mu.Lock()
	defer loaded.mu.Unlock()
	if loaded.server != nil || loaded.err != nil {
		loaded.err = cmp.Or(loaded.err, errTwoServers)
		return
	}
	if loaded.server, loaded.err = server.New(options...); loaded.err == nil {
		loaded.err = register(loaded.server)
	}
}

// start begins to serve other processes. Only the first call does.
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

// serve serves other processes for as long as this process lives: the program decides
// when that ends.
func (l *library) serve(file string) error {
	listener, failed := &lateListener{file: file, taken: make(chan direct.Functions, 1)}, make(chan error, 1)
	go func() { failed <- l.server.Serve(context.Background(), listener) }()
	select {
	case l.direct = <-listener.taken:
		return nil
	case err := <-failed:
		return err
	}
}

// A lateListener is bound once its server has found nothing wrong with its functions.
type lateListener struct {
	net.Listener // nil before Take
	file         string
	taken        chan direct.Functions
}

var _ direct.Listener = (*lateListener)(nil)

// Take binds the socket for other processes.
func (l *lateListener) Take(functions direct.Functions) error {
	where, err := makePlace(l.file)
	if err != nil {
		return err
	}
	if l.Listener, err = where.listen(context.Background()); err != nil {
		return err
	}
	l.taken <- functions
	return nil
}

// Close closes the socket, if there is one.
func (l *lateListener) Close() error {
	if l.Listener == nil {
		return nil
	}
	return l.Listener.Close()
}
