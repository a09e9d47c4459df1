// Package server serves Go functions to every program on the machine.
//
//	s := server.New()
//	s.Register("md5", func(text string) string { ... })
//	s.Register("ack", ack, server.Doc("Ackermann's function."), server.Params("m", "n"))
//	err := s.ListenAndServe(ctx, "unix:/run/demo/nearcall.sock")
//
// Any plain function registers: basic types, strings, []byte, slices, maps,
// structs, time.Time, pointers as optional values, variadic parameters, an
// optional leading context.Context and an optional trailing error. A []byte
// argument is valid until the function returns; copy it to keep it. *os.File and
// *net.TCPConn pass in calls of peers that WithFileDescriptors allows it: a function
// owns those it takes, and no longer those it has returned.
//
// Functions run at the same time, those of one connection too, and must be
// safe for that. The context ends when the caller cancels or disconnects, when
// the deadline passes, and when the function returns. A panic is answered with
// INTERNAL, and so is a function that ends its goroutine; the stack goes to the log.
//
// What callers see of it all is in spec/call-semantics.md.
package server
