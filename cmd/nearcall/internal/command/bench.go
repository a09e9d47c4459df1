package command

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/load"
	"github.com/nearcall/nearcall/internal/cputime"
	"github.com/nearcall/nearcall/status"
)

const (
	benchDuration   = 5 * time.Second
	benchWarmUp     = 500 * time.Millisecond
	benchCallersMax = 10_000
)

// A benching is one run of `nearcall bench`.
type benching struct {
	*program
	callers  int
	shared   bool
	duration time.Duration
	warmUp   time.Duration
	rate     float64
	raw      bool
	json     bool
}

func (p *program) benchCommand() *cobra.Command {
	b := &benching{program: p}
	cmd := &cobra.Command{
		Use: "bench [flags] ADDRESS FUNCTION [ARGUMENT...]",
		// The usage line says itself where flags stand.
		DisableFlagsInUseLine: true,
		Short:                 "Measure how long calls of a function take",
		Long: `Calls a function again and again, and prints how long the calls took, how many
there were in a second, and the CPU time of each: of the callers, and of a local
server. The function really runs, every time: choose one that may.

Each of the --callers waits for its answer before it calls again, on a connection of
its own as a process of its own has it. Without --rate they call as fast as they can,
which shows what a server can do; with it calls are due at fixed times, as users are
who do not wait for each other, and a call that was held up by a slow one counts
from when it was due. Every call is measured.

ARGUMENTs are those of 'nearcall call'. Failed calls are counted and not timed; if
there were any, the exit code is that of the first.

` + exitCodesText(),
		Example: `  nearcall bench unix:/tmp/demo.sock one
  nearcall bench --callers 16 --duration 10s unix:/tmp/demo.sock ack 3 4
  nearcall bench --rate 1000 'unix:/tmp/demo.sock?shm=off' md5 hoge
  nearcall bench --json unix:/tmp/demo.sock one | jq .p99_ns`,
		Args:              arguments(cobra.MinimumNArgs(2)),
		ValidArgsFunction: p.completeFunction,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.jsonError = b.json
			if err := b.check(); err != nil {
				return usageError{err}
			}
			return b.run(cmd.Context(), args[0], args[1], args[2:])
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.IntVarP(&b.callers, "callers", "c", 1, "how many call at a time")
	flags.BoolVar(&b.shared, "shared", false, "let all callers share one connection, as goroutines of one client do")
	flags.DurationVarP(&b.duration, "duration", "d", benchDuration, "how long to measure")
	flags.DurationVar(&b.warmUp, "warm-up", benchWarmUp, "how long to call before that")
	flags.Float64Var(&b.rate, "rate", 0, "calls per second of all callers together (default as fast as they can)")
	flags.BoolVar(&b.raw, "raw", false, "send one argument as raw bytes, without asking for the function's types")
	flags.BoolVar(&b.json, "json", false, "print a JSON object with nanoseconds, and an error as JSON")
	return cmd
}

func (b *benching) check() error {
	switch {
	case b.callers < 1 || b.callers > benchCallersMax:
		return fmt.Errorf("--callers %d: 1 to %d", b.callers, benchCallersMax)
	case b.duration <= 0:
		return fmt.Errorf("--duration %v: more than 0", b.duration)
	case b.warmUp < 0:
		return fmt.Errorf("--warm-up %v: at least 0", b.warmUp)
	case !(b.rate >= 0) || b.rate > float64(time.Second):
		return fmt.Errorf("--rate %v: calls per second, 0 for as fast as they can", b.rate)
	}
	return nil
}

func (b *benching) run(ctx context.Context, address, function string, texts []string) error {
	clients, err := b.connect(address)
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	if err != nil {
		return err
	}
	send, err := b.sender(ctx, clients[0], function, texts)
	if err != nil {
		return err
	}
	calls := make([]load.Call, b.callers)
	for i := range calls {
		c, reply := clients[i%len(clients)], []byte(nil)
		calls[i] = func(ctx context.Context) error {
			var err error
			reply, err = send(ctx, c, reply[:0])
			return err
		}
	}
	// What cannot be called at all is an error like that of `nearcall call`.
	for _, call := range calls {
		if err := call(ctx); err != nil {
			return err
		}
	}
	return b.measure(ctx, calls, clients[0], function)
}

// connect makes the clients; they connect with their first calls.
func (b *benching) connect(address string) ([]*client.Client, error) {
	clients := make([]*client.Client, 0, b.callers)
	for range b.callers {
		c, err := b.client(address)
		if err != nil {
			return clients, err
		}
		clients = append(clients, c)
		if b.shared {
			break
		}
	}
	return clients, nil
}

// A sender makes one call and returns the reply in dst, which may grow.
type sender func(ctx context.Context, c *client.Client, dst []byte) ([]byte, error)

// sender encodes the arguments, once for all calls.
func (b *benching) sender(ctx context.Context, c *client.Client, function string, texts []string) (sender, error) {
	calling := &calling{program: b.program}
	if b.raw {
		payload, err := calling.rawArgument(texts)
		return func(ctx context.Context, c *client.Client, dst []byte) ([]byte, error) {
			return c.CallRaw(ctx, function, payload, dst)
		}, err
	}
	description, err := c.Describe(ctx, function)
	if err != nil {
		return nil, err
	}
	request, err := calling.encode(description, texts)
	return func(ctx context.Context, c *client.Client, dst []byte) ([]byte, error) {
		return c.CallMessagePack(ctx, function, request, dst)
	}, err
}

func (b *benching) measure(ctx context.Context, calls []load.Call, c *client.Client, function string) error {
	server := serverProcess(ctx, c)
	finish := b.showProgress()
	load.Run(ctx, calls, b.rate, b.warmUp)
	before, err := cpuOf(server)
	if err != nil {
		return err
	}
	transport := c.Transport()
	r := load.Run(ctx, calls, b.rate, b.duration)
	// A server that is gone leaves what was before.
	transport = cmp.Or(c.Transport(), transport)
	after, err := cpuOf(server)
	finish()
	if err != nil {
		return err
	}
	report := b.report(c.Address(), function, transport, &r)
	report.addCPU(before, after)
	if err := b.print(report); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return status.Errorf(status.Cancelled, "stopped after %v of %v", r.Elapsed.Round(time.Millisecond), b.duration)
	}
	return r.Failure
}

// cpuUse is what both sides have used of the CPUs.
type cpuUse struct {
	caller, server time.Duration
	serverKnown    bool
}

// cpuOf asks for this process and the server's, which may be 0 or have ended.
func cpuOf(server int) (use cpuUse, err error) {
	if use.caller, err = cputime.Of(os.Getpid()); err != nil || server == 0 {
		return use, err
	}
	var gone error
	use.server, gone = cputime.Of(server)
	use.serverKnown = gone == nil
	return use, nil
}
