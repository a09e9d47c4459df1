// Package residentcobra makes a program resident whose command line is cobra's.
//
//	func main() { residentcobra.Main(resident.Options{}, newRoot) }
//
// takes the place of newRoot().Execute(). The program then stays ready between its
// runs for those who start it by nearcall-run, and runs as before for all others.
package residentcobra

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/resident"
)

// exitFailed is what programs of cobra end with after an error.
const exitFailed = 1

// Main makes a new command tree for each run and executes it. The exit code is 1
// after an error, which cobra has printed unless SilenceErrors was set, and 0
// otherwise. It never returns.
//
// newRoot is called once for each run, at the same time for several in mode
// Concurrent, because flags of cobra keep their values: it must make new commands
// each time, not return those that a variable holds. Functions that are added with
// cobra.OnInitialize belong to the process: add them before Main.
func Main(options resident.Options, newRoot func(inv *resident.Invocation) *cobra.Command) {
	resident.Main(options, func(ctx context.Context, inv *resident.Invocation) int {
		if err := Execute(ctx, inv, newRoot(inv)); err != nil {
			return exitFailed
		}
		return 0
	})
}

// Execute executes a command tree with the arguments, streams and context of an
// invocation, and returns its error: for programs that choose their exit codes.
//
//	resident.Main(options, func(ctx context.Context, inv *resident.Invocation) int {
//		return exitCode(residentcobra.Execute(ctx, inv, newRoot(inv)))
//	})
//
// Commands get the streams by cmd.InOrStdin, cmd.OutOrStdout and cmd.ErrOrStderr,
// and the context by cmd.Context; it ends when the caller does or is interrupted.
func Execute(ctx context.Context, inv *resident.Invocation, root *cobra.Command) error {
	root.SetArgs(arguments(inv))
	root.SetIn(inv.Stdin)
	root.SetOut(inv.Stdout)
	root.SetErr(inv.Stderr)
	return root.ExecuteContext(ctx)
}

// arguments is never nil, which cobra takes for the arguments of the process.
func arguments(inv *resident.Invocation) []string {
	if len(inv.Args) == 0 {
		return []string{}
	}
	return append([]string{}, inv.Args[1:]...)
}
