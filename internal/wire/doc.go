// Package wire is the wire format of spec/wire-format.md: frames, hello and
// welcome, encoded and decoded without I/O and without allocation. What it
// decodes aliases the bytes it was given.
//
// It is not for deciding what a frame means: that is up to server and client.
package wire
