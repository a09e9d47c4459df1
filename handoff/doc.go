// Package handoff gives live connections, listeners and files to other processes on the
// same machine, and receives them.
//
// A front process accepts connections, looks at their first bytes (Peek, PeekHTTP1,
// PeekTLS), and gives each socket to the process that is to serve it:
//
//	backend, err := handoff.Dial(ctx, "unix:/run/shop/backend.sock")
//	...
//	err = backend.SendConn(ctx, connection, handoff.Meta{Name: "shop"})
//
// That process listens for given connections as it would for others:
//
//	listener, err := handoff.Listen("unix:/run/shop/backend.sock")
//	...
//	http.Serve(listener, handler)
//
// After that nothing stands between the client and the server: no proxy copies bytes,
// and the server sees the address of its client.
//
// The process that gives is called the giver, and the process that gets what is given
// the receiver. The two talk over a channel, which is one connection of Dial to a
// Listener.
//
// # Who owns a connection
//
// A connection belongs to its giver until Accept returns it to the receiver. SendConn
// returns nil if it now belongs to the receiver and an error if it still belongs to the
// giver, in every case: a receiver that is killed, stopped or full before it has
// accepted loses nothing. After an error the giver may give the connection to another
// process, answer it, or serve it. The one exception is on macOS; see Channel.End in
// internal/channel.
//
// # Forks and system calls
//
// Received descriptors are close-on-exec. Go programs do not fork; in other languages a
// channel belongs to the process that opened it.
//
// # Systems
//
// The protocol is described in spec/handoff.md. It uses Unix sockets on Linux and
// macOS, and named pipes (pipe:NAME) on Windows. The Windows part has run under Wine;
// the tests that `make test-windows` runs with the option -v say what has not been seen
// on a real Windows.
package handoff
