// Package main is a library with the functions of package shop, for programs that load it.
package main

import (
	"github.com/nearcall/nearcall/embed"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/tests/programs/shop"
)

func init() {
	embed.Serve(func(s *server.Server) error {
		shop.Register(s)
		return nil
	})
}

func main() {}
