// Package client calls functions of a Nearcall server.
//
//	c, err := client.New("unix:/run/demo/nearcall.sock")
//	sum, err := client.Call[int64](ctx, c, "ack", 3, 4)
//
// A Client is one connection that any number of goroutines share, if its address has one
// endpoint. The first call opens it; a later call opens it again if it was lost. It costs nothing while it is idle.
// Replies arrive in any order, and each call waits only for its own.
//
// Once a connection to a local server is busy, its calls travel through memory that
// both sides share, if the server grants it. Transport tells which way calls travel.
//
// An address may have several endpoints:
//
//	c, err := client.New("unix:/run/shop.sock | tcp:b.example:7000,c.example:7000")
//
// A bar stands before endpoints that are farther away, and a comma between equals. Calls go to
// the nearest group with an endpoint that works; among equals, the less busy one of two takes
// the call. Each host name counts as many endpoints as it has addresses. An endpoint that fails
// is left alone for a while, which grows. A call moves on to another endpoint at once if it
// certainly was not executed and the reason lies with the endpoint: nobody listens there, the
// server is stopping, it has too many calls, or it does not have the function. Statistics say
// what is known of each.
//
// A server that passes calls on, such as a gateway, may say where a function can be called
// directly. Calls go there, and come back if they cannot be made there: see WithDirect.
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
