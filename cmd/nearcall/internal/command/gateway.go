package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	gateway "github.com/nearcall/nearcall/gateway/nats"
)

// A gatewayRun is one run of `nearcall gateway`.
type gatewayRun struct {
	*program
	path  string // of the configuration, or ""
	check bool
	json  bool
	// options are what the command line says, in its order.
	options []func(*gateway.Config) error
}

func (r *gatewayRun) log() *slog.Logger { return r.loggerFrom(slog.LevelInfo, r.json) }

func (p *program) gatewayCommand() *cobra.Command {
	run := &gatewayRun{program: p}
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Call functions of other machines, and let them call those of this one, over NATS",
		Long: `Connects the functions of this machine with those of others, over NATS.

With --export others can call the functions of a server on this machine: callers of
Nearcall through their own gateway, and every other NATS client by JSON. With --listen the
functions that others export can be called at a local socket, by any client of Nearcall, as
if they were served there. A gateway can do both.

Without --nats the gateway runs a NATS server itself, at 127.0.0.1:4222, or where
--engine-listen says. Such gateways on several machines find each other when they have
--cluster-listen and, on all except the first one, --route. With --nats the gateway uses
servers of NATS that run already.

--nats-ca, --nats-cert and --nats-key are the files for TLS between the gateway and NATS,
and between the NATS servers that run in gateways. Without them those in gateways cannot
reach each other from machine to machine, unless --plain permits it. Servers of --nats are
connected to by TLS if they demand it, if the URL begins with tls://, or with these files.
--ca, --cert and --key are those for calls that do not travel through NATS because of
--direct: those to servers whose export has a tls: address, which is direct = "tls:HOST:PORT"
in [[export]] of a file.

--check also reads the files for TLS, and refuses certificates that others would refuse. All
of this can stand in a file, which --config names, and the guide lists its keys
(docs/guides/gateway.md). Options count more than the file,
and --export, --nats, --route and --leaf are added to what it lists.

On SIGHUP the gateway reads the file again. On SIGTERM and SIGINT it takes no more calls,
waits for those that are under way, and ends; a second signal makes it end at once. It tells
systemd when it is ready (Type=notify).`,
		Example: `  nearcall gateway --export shop=unix:/run/shop.sock --listen unix:/run/nearcall/gateway.sock
  nearcall gateway --nats tls://nats.example:4222 --creds shop.creds --export shop=unix:/run/shop.sock
  nearcall gateway --config /etc/nearcall/gateway.toml --check
  nearcall gateway status unix:/run/nearcall/gateway.sock`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return run.run(cmd.Context()) },
	}
	run.addFlags(cmd)
	cmd.AddCommand(p.gatewayStatusCommand())
	return cmd
}

func (r *gatewayRun) run(ctx context.Context) error {
	c, err := r.gatewayConfig()
	if err != nil {
		return err
	}
	g, err := gateway.New(c)
	if err != nil {
		return advised(err)
	}
	if r.check {
		fmt.Fprintf(r.out, "the configuration is fine: %s%s\n", counted(len(c.Exports), "export"), listening(c.Listen))
		return nil
	}
	return r.serve(ctx, g)
}

func listening(address string) string {
	if address == "" {
		return ""
	}
	return ", and functions of others at " + address
}

// gatewayConfig is what the file and the options say.
func (r *gatewayRun) gatewayConfig() (gateway.Config, error) {
	c := gateway.Config{}
	if r.path != "" {
		var err error
		if c, err = readGatewayFile(r.path); err != nil {
			return c, err
		}
	}
	for _, option := range r.options {
		if err := option(&c); err != nil {
			return c, usageError{err}
		}
	}
	c.Logger = r.log()
	return c, nil
}

// serve runs the gateway, and tells it of signals.
func (r *gatewayRun) serve(ctx context.Context, g *gateway.Gateway) error {
	hangUps, interrupts := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	defer signal.Stop(hangUps)
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	started, stopping := g.Started(), ctx.Done()
	for {
		select {
		case err := <-ended:
			return advised(err)
		case <-started:
			started = nil
			r.notify("READY=1")
		case <-hangUps:
			r.reload(g)
		case <-stopping:
			stopping = nil
			r.notify("STOPPING=1")
			signal.Notify(interrupts, syscall.SIGINT, syscall.SIGTERM)
			defer signal.Stop(interrupts)
		case <-interrupts:
			return errors.New("a second signal ended the gateway; calls that were under way are lost")
		}
	}
}

// reload reads the configuration again.
func (r *gatewayRun) reload(g *gateway.Gateway) {
	c, err := r.gatewayConfig()
	if err == nil {
		err = advised(g.Reload(c))
	}
	if err != nil {
		r.log().Error("the configuration is not used; the one before stays", "error", err)
		return
	}
	r.log().Info("the configuration was read again")
}
