// Command nearcall calls the functions of Nearcall servers from the shell,
// shows what they offer, and generates typed stubs for other languages.
package main

import (
	"os"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/command"
)

func main() { os.Exit(command.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
