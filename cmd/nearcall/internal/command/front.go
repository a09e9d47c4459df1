package command

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
	"github.com/nearcall/nearcall/internal/address"
)

// A frontRun is one run of `nearcall front`.
type frontRun struct {
	*program
	check    bool
	takeover string
	json     bool
}

func (r *frontRun) log() *slog.Logger { return r.loggerFrom(slog.LevelInfo, r.json) }

func (p *program) frontCommand() *cobra.Command {
	run := &frontRun{program: p}
	cmd := &cobra.Command{
		Use:   "front CONFIG",
		Short: "Give each connection to the process that serves it, and leave the path of its data",
		Long: `Accepts connections, looks at the first bytes without consuming them, and gives
the connection itself to a process that serves it. The process is chosen by host
and path of an HTTP/1 request, or by the server name of a TLS connection, which
the process decrypts with its own certificate. Backends listen with package
handoff, its bindings, or 'nearcall receive'.

On SIGHUP the front reads CONFIG again; a file with errors is reported and not
used. On SIGTERM and SIGINT it accepts no more, lets the connections that it has
accepted find their backends, and ends; a second signal makes it end at once.
Connections that were handed over are not affected by any of this.

--takeover asks a running front, at the control.address of its configuration, for
its listeners, and tells it to drain. It is no error if no front is running there,
so the same command line can be used for the first start. Listeners are also taken
from systemd (LISTEN_FDS) and Server::Starter (SERVER_STARTER_PORT), by their name
or address.

It uses a quarter of the processors, unless GOMAXPROCS says otherwise.`,
		Example: `  nearcall front --check front.toml
  nearcall front front.toml
  nearcall front --takeover unix:/run/front/control.sock front.toml`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return run.run(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&run.check, "check", false, "check CONFIG and do nothing else")
	cmd.Flags().StringVar(&run.takeover, "takeover", "", "take the listeners of the front whose control.address this is")
	cmd.Flags().BoolVar(&run.json, "json", false, "log as JSON")
	return cmd
}

func (r *frontRun) run(ctx context.Context, path string) error {
	if r.takeover != "" {
		if _, err := address.Parse(r.takeover, r.abstract); err != nil {
			return usageError{err}
		}
	}
	c, err := config.Read(path)
	if err != nil {
		return err
	}
	if r.check {
		fmt.Fprintf(r.out, "%s is fine: %d listeners, %d routes, %d backends\n", path, len(c.Listens), len(c.Routes), len(c.Backends))
		return nil
	}
	useFewProcessors()
	f := front.New(r.log())
	return r.serve(ctx, f, c)
}

// useFewProcessors leaves processors to the programs that do the work, unless the
// environment says how many to use. What a front does for a connection is shorter
// than waking another thread for it.
func useFewProcessors() {
	const share = 4
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/share))
	}
}

// serve runs the front, and tells it of signals.
func (r *frontRun) serve(ctx context.Context, f *front.Front, c *config.Config) error {
	reloads := make(chan *config.Config)
	hangUps, interrupts := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	defer signal.Stop(hangUps)
	served, end := context.WithCancel(ctx)
	defer end()
	go func() {
		for served.Err() == nil {
			select {
			case <-served.Done():
			case <-hangUps:
				r.reload(served, c.Path, reloads)
			}
		}
	}()
	stopWatching := context.AfterFunc(ctx, func() {
		signal.Notify(interrupts, syscall.SIGINT, syscall.SIGTERM)
		<-interrupts
		f.GiveUp()
	})
	defer stopWatching()
	return f.Run(ctx, c, r.takeover, reloads)
}

// reload reads the file again.
func (r *frontRun) reload(ctx context.Context, path string, reloads chan<- *config.Config) {
	c, err := config.Read(path)
	if err != nil {
		r.log().Error("the configuration is not used; the one before stays", "error", err)
		return
	}
	select {
	case reloads <- c:
	case <-ctx.Done():
	}
}
