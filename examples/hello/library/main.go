// Package main is the example's functions as a library:
//
//	nearcall build ./examples/hello/library -o /tmp/hello/libhello.so
//
// Programs of other languages load it by the address embed:/tmp/hello/libhello.so.
package main

import (
	"github.com/nearcall/nearcall/embed"
	"github.com/nearcall/nearcall/examples/hello/functions"
	"github.com/nearcall/nearcall/server"
)

func init() {
	s := server.New()
	// What failed is told to whoever opens the library.
	functions.Register(s)
	embed.Serve(s)
}

func main() {}
