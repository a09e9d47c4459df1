// Package client calls functions of a Nearcall server.
//
//	c, err := client.New("unix:/run/demo/nearcall.sock")
//	sum, err := client.Call[int64](ctx, c, "ack", 3, 4)
//
// A Client is one connection that any number of goroutines share. It is opened
// by the first call, opened again after it was lost, and costs nothing while it
// is idle. Calls are answered in any order; each waits for its own answer only.
//
// Calls to a local server travel through memory that both share once the
// connection is busy, where the server gives it; Transport tells.
//
// Arguments and results may be *os.File and *net.TCPConn where a local server lets
// this process pass them. An argument stays the caller's, to close as soon as the
// call has returned; a result is the caller's, and what it drops of a result is closed.
//
// Every call has a deadline: its context's, else the client's default of 30
// seconds. It returns by its deadline + 50 ms, whatever state the server is in.
//
// A call runs at most once. Every error is a *status.Error that says what went
// wrong, its Code, and whether the function ran, its Outcome: a call that was
// not executed may be made again. The client does so itself, a few times and
// within the deadline, when the connection was lost or the server is stopping.
package client
