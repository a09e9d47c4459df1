// Package embed makes a server's functions callable within the process of a
// program that is not written in Go. A package main that imports it and is built
// by
//
//	nearcall build -o libdemo.so ./demo
//
// or go build -buildmode=c-shared, is loaded by libnearcall and by the bindings
// for Perl and Python when they are given the address embed:/path/libdemo.so:
//
//	package main
//
//	import (
//		"github.com/nearcall/nearcall/embed"
//		"github.com/nearcall/nearcall/server"
//	)
//
//	func init() {
//		s := server.New()
//		s.Register("add", func(a, b int64) int64 { return a + b })
//		embed.Serve(s)
//	}
//
//	func main() {}
//
// The functions are registered as for any other server, and none needs an
// //export of its own. Calls run in the thread of the caller, without a system
// call. A function that has proved slow, or that is registered with a maximal
// run time or concurrency, is called over a socket of the same process instead:
// so its caller can leave it at its deadline. Only the first slow call of a
// function lasts as long as the function does.
//
// A process that is forked from the one that loaded the library cannot run Go:
// none of the runtime's threads exist there. libnearcall notices before it enters
// the library, and the same handle goes on over shared memory or a private Unix
// socket to the process that loaded it, whose state all children share. The
// socket lies in a directory that only its user can enter: $XDG_RUNTIME_DIR/nearcall-embed
// where that variable names a directory of the user's alone, else
// $TMPDIR/nearcall-embed-UID. It is removed when the process exits, or, after it was
// killed, by the next one that loads the file.
//
// A function must not end its goroutine by runtime.Goexit: within the process
// there is nobody to return to, so the runtime ends the process after the log has
// named the function. One that is registered with server.Apart is not run there. A
// panic is an error of its call.
package embed
