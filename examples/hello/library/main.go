// Package main is the example's functions as a library:
//
//	nearcall build ./examples/hello/library -o /tmp/hello/libhello.so
//
// Programs of other languages load it by the address embed:/tmp/hello/libhello.so.
package main

import (
	"github.com/nearcall/nearcall/embed"
	"github.com/nearcall/nearcall/examples/hello/functions"
)

func init() {
	// What fails is told to whoever opens the library.
	embed.Serve(functions.Register)
}

func main() {}
