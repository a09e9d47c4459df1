// Package direct is what packages server and embed have agreed on, so that a library can
// call the functions of its server in the goroutine of its caller. Nobody else needs that:
// Go programs call their functions themselves.
package direct

import "net"

// A Listener is a listener of a library. Server.Serve hands it the functions before it uses
// it for anything else. The program that has loaded the library is not written in Go, and
// its log should not begin with lines of Nearcall's, so Serve logs its start and its end at
// level debug.
type Listener interface {
	net.Listener
	// Take is called once, when all functions are registered. If it fails, Serve closes
	// the listener and returns the error.
	Take(functions Functions) error
}

// Functions are those of a server. Its methods may be called from any number of goroutines.
type Functions interface {
	// Find returns the number of the function with a name, or 0 if there is none.
	Find(name string) uint32
	// Overran notes that a call of the function took so long that its caller should have
	// been able to leave it. The next calls of it are not run directly.
	Overran(function uint32)
	// Run calls a function. deadlineNs is a moment of CLOCK_MONOTONIC, or 0 for no
	// deadline. payload must not change until Release; extensions are those of a request.
	//
	// Run does nothing and returns nil for a function that must not run in its caller's
	// goroutine, because its caller must be able to leave it at the deadline: one that has
	// proved to be slow, or whose registration limits how it runs.
	Run(function uint32, codec uint8, payload, extensions []byte, deadlineNs uint64) *Run
}

// A Run is a call that has ended. Its bytes are valid until Release.
type Run struct {
	Extensions []byte // those of the answer: the metadata that the function has added
	Payload    []byte // the result or, if the call has failed, the payload of its error
	Code       uint8  // 0, or that of the error
	Outcome    uint8
	Release    func() // ends the use of the run and of its bytes
}
