// Package eventloop is an engine for package server: connections for which nothing
// has come wait together, on cloudwego/netpoll, and none of them has a goroutine, a
// stack or a buffer. It is a module of its own so that only those who choose it
// build netpoll; users choose it by package server/eventloop.
//
// netpoll tells when something may be read, and no more. Its own connections read
// by readv(2), which loses descriptors without a word, keep a buffer each, and read
// on whether or not anybody takes what came: see docs/decisions/0014-event-loop.md.
package eventloop
