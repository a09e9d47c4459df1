// Package handoff gives live connections, listeners and files to other processes
// of this machine, and takes them.
//
// A front process accepts, looks at the first bytes (Peek, PeekHTTP1, PeekTLS), and
// gives the socket itself away:
//
//	backend, err := handoff.Dial(ctx, "unix:/run/shop/backend.sock")
//	...
//	err = backend.SendConn(ctx, connection, handoff.Meta{Name: "shop"})
//
// The process that serves it listens for such connections as for others:
//
//	listener, err := handoff.Listen("unix:/run/shop/backend.sock")
//	...
//	http.Serve(listener, handler)
//
// Nobody stays between client and server: no proxy copies bytes, and the server
// sees its client's address.
//
// # Who owns a connection
//
// A connection is the receiver's when Accept has returned it, and its giver's until
// then: whether SendConn returned nil or an error tells which, in every case. A
// receiver that is killed, stopped or full before it accepted loses nothing. After
// an error the giver may give the connection to another process, answer it, or
// serve it. The one exception is macOS, see Channel.End in internal/channel.
//
// # Forks and system calls
//
// Received descriptors are close-on-exec. Go programs do not fork; in the other
// languages a channel belongs to the process that opened it.
//
// The protocol is spec/handoff.md. Linux and macOS are served through Unix sockets,
// Windows through named pipes (pipe:NAME).
// What of Windows was run under Wine and what waits for a real one, `make
// test-windows` tells with the option -v of its tests.
package handoff
