// Package pipe is the channel of a handoff on Windows: a named pipe on the
// runtime's poller, who is at its other end, and sockets and files duplicated
// for that process. On other systems it is empty.
//
// A pipe can be reached by the user that made it and by the system, from this
// machine only. The pipe says who the peer is, not the peer itself.
package pipe
