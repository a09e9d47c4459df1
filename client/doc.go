// Package client calls functions of a Nearcall server.
//
//	c, err := client.New("unix:/run/demo/nearcall.sock")
//	sum, err := client.Call[int64](ctx, c, "ack", 3, 4)
//
// A Client is one connection that any number of goroutines share. The first call opens
// it; a later call opens it again if it was lost. It costs nothing while it is idle.
// Replies arrive in any order, and each call waits only for its own.
//
// Once a connection to a local server is busy, its calls travel through memory that
// both sides share, if the server grants it. Transport tells which way calls travel.
//
// Arguments and results may be *os.File and *net.TCPConn if a local server allows this
// process to pass them. An argument still belongs to the caller, who may close it as
// soon as the call has returned. A result belongs to the caller too; the files in a
// result that is dropped are closed.
//
// Every call has a deadline: that of its context, or else the client's default of 30
// seconds. A call returns at most 50 ms after its deadline, whatever state the server
// is in.
//
// A call runs at most once. Every error is a *status.Error. Its Code says what went
// wrong and its Outcome whether the function ran. A call that was not executed may be
// made again. The client does that itself, a few times and within the deadline, if the
// connection was lost or the server is stopping.
package client
