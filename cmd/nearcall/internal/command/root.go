// Package command is the command line of nearcall: one file for each command.
package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/client/clienttls"
)

// A program is one run of the command: its streams and the flags that all
// commands share.
type program struct {
	in  io.Reader
	out io.Writer
	err io.Writer

	timeout   time.Duration
	anyUser   bool
	abstract  bool
	verbose   bool
	jsonError bool

	// tls names the files and the server for tls: addresses.
	tls clienttls.Files
}

// Run runs the command line and returns the exit code.
func Run(args []string, in io.Reader, out, errors io.Writer) int {
	p := &program{in: in, out: out, err: errors}
	root := p.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errors)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return p.report(root.ExecuteContext(ctx))
}

// Root returns the command tree, for the manual pages.
func Root() *cobra.Command { return new(program).root() }

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "nearcall",
		Short: "Call Go functions of another process, from the shell",
		Long: `nearcall calls the functions of a Nearcall server, shows what they are, and
generates typed stubs for other languages.

An ADDRESS is unix:/path, unix:@name, tcp:host:port or tls:host:port. An address with
unix: may end with ?shm=auto|off (shared memory) and ?spin=auto|off|dedicated (how to
wait for it), joined by &. One with tcp: or tls: may end with ?silence=MS (for how long
a server may say nothing), and one with tcp: with ?plain=warn|refuse|quiet (what is done
about calls that others can read). A caller's address may have several endpoints: a bar
stands before those that are farther away, and a comma between hosts that are equals.
Quote such addresses. A SOURCE is an address, or a file with a schema (made by 'nearcall
schema export'), or - to read such a file from standard input.

` + exitCodesText(),
		Example: `  nearcall demo                                serves functions to try this with
  nearcall list unix:/tmp/demo.sock            what a server offers
  nearcall call unix:/tmp/demo.sock ack 3 4    calls a function`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       client.Version,
	}
	flags := root.PersistentFlags()
	flags.DurationVar(&p.timeout, "timeout", client.DefaultTimeout, "how long a call may take in all, as 500ms or 2s")
	flags.BoolVar(&p.anyUser, "any-server-user", false, "talk to a local server of any user")
	flags.BoolVar(&p.abstract, "abstract", false, "accept unix:@name, a name that any user of the machine can take")
	flags.BoolVarP(&p.verbose, "verbose", "v", false, "log connections on standard error")
	flags.StringVar(&p.tls.Authorities, "ca", "", "trust only the authorities in this PEM file at tls: addresses")
	flags.StringVar(&p.tls.Certificate, "cert", "", "show the certificate in this PEM file at tls: addresses")
	flags.StringVar(&p.tls.Key, "key", "", "the key of --cert, in a PEM file; without it, the key is in the file of --cert")
	flags.StringVar(&p.tls.ServerName, "server-name", "", "what a server's certificate must be for, if not the host of the address")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(p.demoCommand(), p.listCommand(), p.describeCommand(), p.callCommand(), p.pingCommand(), p.benchCommand(),
		p.statsCommand(), p.frontCommand(), p.schemaCommand(), p.genCommand(), p.buildCommand(), p.receiveCommand(),
		p.residentCommand(), p.gatewayCommand())
	return root
}

// client makes the client of an address by the shared flags, and more options.
func (p *program) client(address string, more ...client.Option) (*client.Client, error) {
	options := []client.Option{client.WithTimeout(p.timeout), client.WithName("nearcall/" + client.Version), client.WithLogger(p.logger()),
		client.WithFrameBytesMax(client.FrameBytesCeiling), clienttls.With(p.tls)}
	if p.anyUser {
		options = append(options, client.WithAnyServerUser())
	}
	if p.abstract {
		options = append(options, client.WithAbstractAddresses())
	}
	return client.New(address, append(options, more...)...)
}

func (p *program) logger() *slog.Logger { return p.loggerFrom(slog.LevelWarn, false) }

// loggerFrom logs what is at least of a level, and everything with --verbose.
func (p *program) loggerFrom(level slog.Level, json bool) *slog.Logger {
	if p.verbose {
		level = slog.LevelDebug
	}
	options := &slog.HandlerOptions{Level: level}
	if json {
		return slog.New(slog.NewJSONHandler(p.err, options))
	}
	return slog.New(slog.NewTextHandler(p.err, options))
}

// arguments makes a check of the number of arguments whose error names them.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("%d arguments where '%s' is expected", len(args), cmd.UseLine())}
		}
		return nil
	}
}
