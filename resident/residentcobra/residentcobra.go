// Package residentcobra makes programs resident whose command line is built with cobra.
//
//	func main() { residentcobra.Main(resident.Options{}, newRoot) }
//
// takes the place of newRoot().Execute(). For those who start it through nearcall-run,
// the program then stays ready between its runs. For all others it runs as before.
package residentcobra

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/resident"
)

// exitFailed is the exit code of cobra programs after an error.
const exitFailed = 1

// Main makes a new command tree for each run and executes it. It never returns. The
// exit code is 1 after an error, which cobra has printed unless SilenceErrors is set,
// and 0 otherwise.
//
// newRoot is called once for each run, and in mode Concurrent several times at once. It
// must make new commands each time, and not return those that a variable holds, because
// cobra's flags keep their values. Functions that are added with cobra.OnInitialize
// belong to the process: add them before Main.
func Main(options resident.Options, newRoot func(inv *resident.Invocation) *cobra.Command) {
	resident.Main(options, func(ctx context.Context, inv *resident.Invocation) int {
		if err := Execute(ctx, inv, newRoot(inv)); err != nil {
			return exitFailed
		}
		return 0
	})
}

// Execute executes a command tree with the arguments, streams and context of an
// invocation, and returns its error. It is for programs that choose their exit codes
// themselves.
//
//	resident.Main(options, func(ctx context.Context, inv *resident.Invocation) int {
//		return exitCode(residentcobra.Execute(ctx, inv, newRoot(inv)))
//	})
//
// Commands get the streams from cmd.InOrStdin, cmd.OutOrStdout and cmd.ErrOrStderr.
// They get the context from cmd.Context; it ends when the caller ends or interrupts the
// run.
func Execute(ctx context.Context, inv *resident.Invocation, root *cobra.Command) error {
	root.SetArgs(arguments(inv))
	root.SetIn(inv.Stdin)
	root.SetOut(inv.Stdout)
	root.SetErr(inv.Stderr)
	return root.ExecuteContext(ctx)
}

// arguments returns the arguments for cobra. They are never nil, which cobra would take
// for the arguments of the process.
func arguments(inv *resident.Invocation) []string {
	if len(inv.Args) == 0 {
		return []string{}
	}
	return append([]string{}, inv.Args[1:]...)
}
