package command

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/client"
)

const (
	benchDuration   = 5 * time.Second
	benchWarmUp     = 500 * time.Millisecond
	benchRounds     = 3 // of several settings
	benchRoundsMax  = 1_000
	benchCallersMax = 10_000
)

// A benching is one run of `nearcall bench`.
type benching struct {
	*program
	callers      []int
	payloadBytes []int
	transports   []string
	rounds       int
	shared       bool
	duration     time.Duration
	warmUp       time.Duration
	rate         float64
	raw          bool
	json         bool
	output       string
}

func (p *program) benchCommand() *cobra.Command {
	b := &benching{program: p}
	cmd := &cobra.Command{
		Use: "bench [flags] ADDRESS FUNCTION [ARGUMENT...]",
		// The usage line says itself where flags stand.
		DisableFlagsInUseLine: true,
		Short:                 "Measure how long calls of a function take",
		Long: `Calls a function again and again, and prints how long the calls took, how many there
were in a second, how many in the slowest quarter of a second, and the CPU time of each
call: that of the callers, and that of a local server. The function really runs every
time, so choose one that may. A mean far above p50 shows that calls were slow for a part
of the time. Percentiles hide that, because few calls are made in such a time.

Each of the --callers has a connection of its own, as a separate process has, and waits
for its answer before it calls again. Without --rate they call as fast as they can,
which shows what a server can do. With --rate calls are due at fixed times, like those
of users who do not wait for each other. A call that was held up by a slow one counts
from when it was due; calls that were due and never begun are reported as missed. Every
call is measured, except those of --warm-up, which go as fast as they can.

With lists, such as --callers 1,16 --transport shm,socket, every combination is a
setting. Settings take turns in --rounds, and each gets its part of --duration in each
round, so that whatever else the machine does affects all of them. One table shows them.
If a setting could not be measured, its row says why, and the exit code is 1.

The ARGUMENTs are those of 'nearcall call'. Failed calls are counted and not timed. If
there were any, the exit code is that of the first, or 1 with several settings.

` + exitCodesText(),
		Example: `  nearcall bench unix:/tmp/demo.sock one
  nearcall bench --callers 16 --duration 10s unix:/tmp/demo.sock ack 3 4
  nearcall bench --rate 1000 'unix:/tmp/demo.sock?shm=off' md5 hoge
  nearcall bench --callers 1,16 --transport shm,socket unix:/tmp/demo.sock one
  nearcall bench --payload-bytes 64,4096 --output results unix:/tmp/demo.sock echo
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
	b.addFlags(cmd)
	return cmd
}

func (b *benching) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.IntSliceVarP(&b.callers, "callers", "c", []int{1}, "how many callers call at a time")
	flags.IntSliceVar(&b.payloadBytes, "payload-bytes", nil, "add a last ARGUMENT of so many bytes, for a function that takes a string or bytes there")
	flags.StringSliceVar(&b.transports, "transport", nil, "shm for shared memory, or socket (default as ADDRESS says)")
	flags.IntVar(&b.rounds, "rounds", 0, "in how many turns each setting is measured (default 3 for several settings, 1 for one)")
	flags.BoolVar(&b.shared, "shared", false, "let all callers share one connection, as goroutines of one client do")
	flags.DurationVarP(&b.duration, "duration", "d", benchDuration, "how long to measure each setting, in all rounds together")
	flags.DurationVar(&b.warmUp, "warm-up", benchWarmUp, "how long to call before measuring, in each round")
	flags.Float64Var(&b.rate, "rate", 0, "calls per second of all callers together (default as fast as they can)")
	flags.BoolVar(&b.raw, "raw", false, "send one argument as raw bytes, without asking for the function's types")
	flags.BoolVar(&b.json, "json", false, "print a JSON object with nanoseconds, and an error as JSON")
	flags.StringVarP(&b.output, "output", "o", "", "also write that object into this `FOLDER`, named by date and machine")
	offer := []cobra.Completion{cobra.CompletionWithDesc(transportMemory, "shared memory"), cobra.CompletionWithDesc(transportSocket, "the socket alone")}
	if err := cmd.RegisterFlagCompletionFunc("transport", cobra.FixedCompletions(offer, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined above
	}
}

func (b *benching) check() error {
	for _, callers := range b.callers {
		if callers < 1 || callers > benchCallersMax {
			return fmt.Errorf("--callers %d: 1 to %d", callers, benchCallersMax)
		}
	}
	for _, bytes := range b.payloadBytes {
		if bytes < 0 || bytes > client.FrameBytesCeiling {
			return fmt.Errorf("--payload-bytes %d: 0 to %d", bytes, client.FrameBytesCeiling)
		}
	}
	for _, transport := range b.transports {
		if !slices.Contains([]string{transportMemory, transportSocket}, transport) {
			return fmt.Errorf("--transport %q: %s or %s", transport, transportMemory, transportSocket)
		}
	}
	switch {
	case b.rounds < 0 || b.rounds > benchRoundsMax:
		return fmt.Errorf("--rounds %d: 1 to %d", b.rounds, benchRoundsMax)
	case b.duration <= 0:
		return fmt.Errorf("--duration %v: more than 0", b.duration)
	case b.warmUp < 0:
		return fmt.Errorf("--warm-up %v: at least 0", b.warmUp)
	case !(b.rate >= 0) || b.rate > float64(time.Second):
		return fmt.Errorf("--rate %v: calls per second, 0 for as fast as they can", b.rate)
	}
	return nil
}

// run measures and tells. What nothing could be measured for is an error like that of
// `nearcall call`.
func (b *benching) run(ctx context.Context, address, function string, texts []string) error {
	settings, err := b.settings(ctx, address, function, texts)
	if err != nil {
		return err
	}
	if b.output != "" {
		// Before time is spent on what cannot be kept.
		if err := os.MkdirAll(b.output, 0o755); err != nil {
			return err
		}
	}
	b.setRounds(len(settings))
	m := measurement{benching: b, address: address, settings: settings}
	stopped := m.measure(ctx)
	if only := settings[0]; len(settings) == 1 && only.failure != nil {
		return cmp.Or(stopped, only.failure)
	}
	report := b.report(address, function, settings)
	if err := b.tell(report); err != nil {
		return err
	}
	if stopped != nil {
		return stopped
	}
	return failureOf(settings)
}

func (b *benching) setRounds(settings int) {
	switch {
	case b.rounds > 0:
	case settings > 1:
		b.rounds = benchRounds
	default:
		b.rounds = 1
	}
}

// tell prints the report, and writes it where that was asked for.
func (b *benching) tell(report *benchReport) error {
	if b.json {
		if err := report.encode(b.out); err != nil {
			return err
		}
	} else {
		b.print(report)
	}
	if b.output == "" {
		return nil
	}
	return report.write(b.output, b.err)
}
