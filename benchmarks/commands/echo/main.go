// Command echo prints its flag --value: the program of the published comparison of
// spawning with staying resident. Its resident offers the same as a function.
package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/resident"
	"github.com/nearcall/nearcall/resident/residentcobra"
	"github.com/nearcall/nearcall/server"
)

func main() {
	residentcobra.Main(resident.Options{Mode: resident.Concurrent, Serve: serve}, newRoot)
}

func newRoot(*resident.Invocation) *cobra.Command {
	var value string
	root := &cobra.Command{Use: "echo", Run: func(cmd *cobra.Command, _ []string) {
		fmt.Fprintln(cmd.OutOrStdout(), value)
	}}
	root.Flags().StringVar(&value, "value", "", "what to print")
	return root
}

func serve(ctx context.Context, listener net.Listener) error {
	s, err := server.New()
	if err != nil {
		return err
	}
	if err := s.Register("echo", func(value []byte) []byte { return value }); err != nil {
		return err
	}
	return s.Serve(ctx, listener)
}
