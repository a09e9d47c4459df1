// Command testprogram is the program of the tests of residentcobra; TEST_MODE says
// how it is resident.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/resident"
	"github.com/nearcall/nearcall/resident/residentcobra"
)

var modes = map[string]resident.Mode{"pool": resident.Pool, "serial": resident.Serial, "concurrent": resident.Concurrent}

func main() {
	options := resident.Options{Mode: modes[os.Getenv("TEST_MODE")], Environment: []string{"TEST_MODE"}}
	residentcobra.Main(options, newRoot)
}

func newRoot(inv *resident.Invocation) *cobra.Command {
	root := &cobra.Command{Use: "testprogram", SilenceUsage: true}
	var words []string
	say := &cobra.Command{
		Use: "say",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%q %q resident=%t\n", words, args, inv.Resident)
			return err
		},
	}
	say.Flags().StringSliceVar(&words, "word", nil, "")
	root.AddCommand(say,
		&cobra.Command{Use: "fail", RunE: func(*cobra.Command, []string) error { return errors.New("as was asked") }},
		&cobra.Command{Use: "quote", RunE: quote},
		&cobra.Command{Use: "wait", RunE: wait},
	)
	return root
}

func quote(cmd *cobra.Command, _ []string) error {
	text, err := io.ReadAll(cmd.InOrStdin())
	if err == nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "<%s>", text)
	}
	return err
}

// wait says that it does, and waits for the end of the command's context.
func wait(cmd *cobra.Command, _ []string) error {
	ended := cmd.Context().Done()
	fmt.Fprintln(cmd.ErrOrStderr(), "waiting")
	<-ended
	return context.Cause(cmd.Context())
}
