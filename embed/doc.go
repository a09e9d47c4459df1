// Package embed makes the functions of a server callable within the process of a
// program that is not written in Go. Write a package main that imports it:
//
//	package main
//
//	import (
//		"github.com/nearcall/nearcall/embed"
//		"github.com/nearcall/nearcall/server"
//	)
//
//	func init() { embed.Serve(register) }
//
//	func register(s *server.Server) error {
//		return s.Register("add", func(a, b int64) int64 { return a + b })
//	}
//
//	func main() {}
//
// and build it as a library:
//
//	nearcall build -o libdemo.so ./demo
//
// go build -buildmode=c-shared does the same. libnearcall, and the bindings for Perl
// and Python, load the library when they are given the address embed:/path/libdemo.so.
//
// Functions are registered as with any other server; none needs an //export comment. A
// call runs in the thread of its caller, without a system call. A function that has
// proved to be slow, or that is registered with a maximal run time or concurrency, is
// instead called over a socket of the same process, so that its caller can leave it at
// the deadline. Only the first slow call of a function keeps its caller for as long as
// the function runs.
//
// # Forks
//
// A process that was forked from the one that loaded the library cannot run Go, because
// none of the threads of the Go runtime exist there. libnearcall notices that before it
// enters the library. The same handle then calls the process that loaded the library,
// over shared memory or a private Unix socket, so all children share that process's
// state. The socket lies in a directory that only its user can enter:
// $XDG_RUNTIME_DIR/nearcall-embed if that variable names a directory which belongs to
// the user alone, and otherwise $TMPDIR/nearcall-embed-UID. The socket is removed when
// the process exits. If the process is killed, the next one that loads the same file
// removes it.
//
// # Panics
//
// A panic becomes an error of its call. A function must not end its goroutine by
// runtime.Goexit: within the process there is nobody to return to, so the log names the
// function and then the runtime ends the process. A function that is registered with
// server.Apart does not run in its caller's thread, and may.
package embed
