// Package server serves Go functions to every program on the machine.
//
//	s, err := server.New()
//	s.Register("md5", func(text string) string { ... })
//	s.Register("ack", ack, server.Doc("Ackermann's function."), server.Params("m", "n"))
//	err = s.ListenAndServe(ctx, "unix:/run/demo/nearcall.sock")
//
// Any plain function can be registered. Its parameters and results may be basic types,
// strings, []byte, slices, maps, structs, time.Time, and pointers, which stand for
// optional values. The last parameter may be variadic, the first may be a
// context.Context, and the last result may be an error. A []byte argument is valid
// until the function returns; copy it to keep it longer. *os.File and *net.TCPConn can
// be passed if WithFileDescriptors allows it for the caller: the function owns those
// that it is given, and the server owns those that it returns.
//
// Calls run concurrently, including calls on the same connection, so functions must be
// safe for concurrent use. A function's context ends when the caller cancels the call
// or disconnects, when the deadline passes, and when the function returns. If a
// function panics or ends its goroutine, the caller gets INTERNAL and the stack is
// logged.
//
// What callers may rely on is written down in spec/call-semantics.md.
package server
