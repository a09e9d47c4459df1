package command

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/client"
)

// A pinging is one run of `nearcall ping`.
type pinging struct {
	*program
	count    int
	interval time.Duration
	memory   bool
	json     bool
}

func (p *program) pingCommand() *cobra.Command {
	run := &pinging{program: p}
	cmd := &cobra.Command{
		Use:   "ping ADDRESS",
		Short: "Ask whether a server is alive, or whether calls are hot",
		Long: `Asks a server whether it is alive.

With --shm it instead makes calls for about a second without a pause, and says whether
they are hot, which means that both sides stay awake and look at shared memory. If they
are not, it says why.`,
		Example: `  nearcall ping unix:/tmp/demo.sock
  nearcall ping --count 100 --interval 0 --json unix:/tmp/demo.sock
  nearcall ping --shm unix:/tmp/demo.sock`,
		Args:              arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: p.completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.jsonError = run.json
			if run.count < 1 {
				return usageError{fmt.Errorf("--count %d: at least 1", run.count)}
			}
			if run.interval < 0 {
				return usageError{fmt.Errorf("--interval %v: at least 0", run.interval)}
			}
			return run.run(cmd.Context(), args[0])
		},
	}
	cmd.Flags().IntVarP(&run.count, "count", "n", 1, "how often to ask")
	cmd.Flags().DurationVar(&run.interval, "interval", time.Second, "how long to wait in between")
	cmd.Flags().BoolVar(&run.memory, "shm", false, "call for a second, and say whether calls are hot and, if not, why")
	cmd.Flags().BoolVar(&run.json, "json", false, "print a JSON object with nanoseconds")
	return cmd
}

// pingTimes are those of all pings so far.
type pingTimes struct {
	Count     int             `json:"count"`
	ConnectNs time.Duration   `json:"connect_ns"`
	MinNs     time.Duration   `json:"min_ns"`
	MeanNs    time.Duration   `json:"mean_ns"`
	MaxNs     time.Duration   `json:"max_ns"`
	AllNs     []time.Duration `json:"all_ns"`
}

func (t *pingTimes) add(took time.Duration) {
	t.AllNs = append(t.AllNs, took)
	t.Count++
	t.MaxNs = max(t.MaxNs, took)
	if t.Count == 1 {
		t.MinNs = took
	}
	t.MinNs = min(t.MinNs, took)
	var sum time.Duration
	for _, one := range t.AllNs {
		sum += one
	}
	t.MeanNs = sum / time.Duration(t.Count)
}

func (p *pinging) run(ctx context.Context, address string) error {
	c, err := p.client(address)
	if err != nil {
		return err
	}
	defer c.Close()
	if p.memory {
		return p.runMemory(ctx, c, address)
	}
	times, err := p.measure(ctx, c)
	if err != nil {
		return err
	}
	if p.json {
		return json.NewEncoder(p.out).Encode(times)
	}
	if p.count > 1 {
		fmt.Fprintf(p.out, "%d answers: least %v, mean %v, most %v\n", times.Count, fourDigits(times.MinNs), fourDigits(times.MeanNs), fourDigits(times.MaxNs))
	}
	return nil
}

func (p *pinging) measure(ctx context.Context, c *client.Client) (*pingTimes, error) {
	times := &pingTimes{}
	start := time.Now()
	// The first one connects, which is no matter of round trips.
	if _, err := c.Ping(ctx); err != nil {
		return nil, err
	}
	times.ConnectNs = time.Since(start)
	for i := range p.count {
		if i > 0 && !sleep(ctx, p.interval) {
			break
		}
		took, err := c.Ping(ctx)
		if err != nil {
			return nil, err
		}
		times.add(took)
		if !p.json {
			fmt.Fprintf(p.out, "answer from %s in %v\n", c.Address(), fourDigits(took))
		}
	}
	return times, nil
}

// fourDigits rounds a time to what a person reads of it.
func fourDigits(took time.Duration) time.Duration {
	unit := 100 * time.Nanosecond
	for took/unit >= 10_000 {
		unit *= 10
	}
	return took.Round(unit)
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, length time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(length):
		return true
	}
}
