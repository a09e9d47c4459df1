package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os/exec"
	"os/signal"
	"os/user"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/receive"
	"github.com/nearcall/nearcall/handoff"
)

// programsMax is how many programs run at a time unless --max says otherwise.
const programsMax = 64

// A receiving is one run of `nearcall receive`.
type receiving struct {
	*program
	address   string
	stdio     bool
	listenFDs bool
	max       int
	users     []string
	mode      string
	json      bool
}

func (p *program) receiveCommand() *cobra.Command {
	r := &receiving{program: p}
	cmd := &cobra.Command{
		Use:                   "receive --address unix:/path [flags] -- PROGRAM [ARGUMENT...]",
		DisableFlagsInUseLine: true,
		Short:                 "Run a program for each connection that is handed over",
		Long: `Takes connections that another process hands over, such as 'nearcall front', and
runs PROGRAM for each, so that the program behind a front can be in any language.

The program gets the connection itself, as its standard input and output (--stdio,
as under inetd) or as descriptor 3 (--listen-fds, as under systemd with Accept=yes:
LISTEN_FDS=1, LISTEN_PID, LISTEN_FDNAMES=connection). The connection is in blocking
mode, and nothing has been read from it. REMOTE_ADDR and REMOTE_PORT are the client's.
HANDOFF_NAME and HANDOFF_MESSAGE are what the giver sent along, if it sent something
without a NUL in it. What the program writes to standard error is printed here.

At most --max programs run at a time. While they do, further connections stay with
their giver, which can hand them to another process. A connection of which bytes were
already read cannot be given to a program. It is refused before it is sent, as too
large for a prefix of 0 bytes, and it stays with the giver too.

PROGRAM may be missing or not executable, or it may end at once with 126 or 127, as
shells and env then do. As long as it cannot be started, only one connection is taken
now and then to try again, after 100 ms at first and after 10 s at most. That connection
goes back to a giver that takes connections back, as 'nearcall front' does, and is
closed otherwise.

On SIGINT and SIGTERM it takes no more connections, and ends when the running programs
have ended; a second signal passes SIGTERM on to them.`,
		Example: `  nearcall receive --address unix:/tmp/cat.sock -- cat
  nearcall receive --address unix:/run/shop.sock --max 8 --user www-data -- perl shop.pl
  nearcall receive --address unix:/run/app.sock --listen-fds -- python3 app.py`,
		Args: arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&r.address, "address", "", "the socket at which connections are handed over, as unix:/path")
	flags.BoolVar(&r.stdio, "stdio", false, "the connection is the program's standard input and output (default)")
	flags.BoolVar(&r.listenFDs, "listen-fds", false, "the connection is the program's descriptor 3")
	flags.IntVar(&r.max, "max", programsMax, "how many programs may run at a time")
	flags.StringArrayVar(&r.users, "user", nil, "a user, besides root and this one, who may hand connections over: a name or a number; may be repeated")
	flags.StringVar(&r.mode, "mode", "", "permissions of the socket, in octal, as 0660")
	flags.BoolVar(&r.json, "json", false, "log as JSON")
	cmd.MarkFlagsMutuallyExclusive("stdio", "listen-fds")
	_ = cmd.MarkFlagFilename("address")
	return cmd
}

func (r *receiving) run(ctx context.Context, command []string) error {
	options, err := r.options()
	if err != nil {
		return usageError{err}
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	receiver := &receive.Receiver{Program: append([]string{path}, command[1:]...), Max: r.max, Logger: r.log()}
	if r.listenFDs {
		receiver.Style = receive.ListenFDs
	}
	listener, err := handoff.Listen(r.address, options...)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "Taking connections at %s. Stop with Ctrl-C.\n", r.address)
	served := make(chan error, 1)
	go func() { served <- receiver.Serve(ctx, listener) }()
	select {
	case err := <-served:
		return errors.Join(err, listener.Close())
	case <-ctx.Done():
		return finish(listener, receiver, served)
	}
}

// finish takes no more and waits for what runs. A second signal means that the user is
// impatient.
func finish(listener *handoff.Listener, receiver *receive.Receiver, served <-chan error) error {
	impatient, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(impatient, receiver.Terminate)()
	if err := listener.Shutdown(impatient); err != nil && impatient.Err() == nil {
		return err
	}
	return <-served
}

func (r *receiving) options() ([]handoff.Option, error) {
	if r.address == "" {
		return nil, errors.New("--address is missing: where connections are handed over, as unix:/run/app.sock")
	}
	if r.max < 1 {
		return nil, fmt.Errorf("--max %d: at least one program has to run", r.max)
	}
	options := []handoff.Option{handoff.WithPrefixLimit(0), handoff.WithLogger(r.log())}
	if r.mode != "" {
		mode, err := strconv.ParseUint(r.mode, 8, 9)
		if err != nil {
			return nil, fmt.Errorf("--mode %s: write it in octal, as 0660", r.mode)
		}
		options = append(options, handoff.WithMode(fs.FileMode(mode)))
	}
	for _, name := range r.users {
		uid, err := userID(name)
		if err != nil {
			return nil, err
		}
		options = append(options, handoff.WithPeerUsers(uid))
	}
	return options, nil
}

// userID accepts numbers of users that nobody has named.
func userID(name string) (uint32, error) {
	text := name
	if known, err := user.Lookup(name); err == nil {
		text = known.Uid
	}
	uid, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("--user %s: there is no such user", name)
	}
	return uint32(uid), nil
}

func (r *receiving) log() *slog.Logger { return r.loggerFrom(slog.LevelWarn, r.json) }
