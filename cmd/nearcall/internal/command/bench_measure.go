package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/load"
	"github.com/nearcall/nearcall/internal/cputime"
	"github.com/nearcall/nearcall/status"
)

// connectingAtATime is how many callers connect at a time: a server's backlog has room
// for more.
const connectingAtATime = 64

// warmUpsMax is how often a setting is warmed up whose connections do not yet have the
// transport that was asked for.
const warmUpsMax = 8

// A measurement is the settings on their way through the rounds.
type measurement struct {
	*benching
	address  string
	settings []*benchSetting
	progress *benchProgress
}

// measure lets all settings take turns. The error says that somebody stopped it; all
// others are their settings' own.
func (m *measurement) measure(ctx context.Context) error {
	turns := m.rounds * len(m.settings)
	length := time.Duration(turns) * m.turnLength()
	m.progress = m.startProgress(turns, m.turnLength())
	defer m.progress.finish()
	begin := time.Now()
	m.takeTurns(ctx)
	var stopped error
	if ctx.Err() != nil {
		stopped = status.Errorf(status.Cancelled, "stopped after %v of %v", time.Since(begin).Round(time.Millisecond), length)
	}
	for _, s := range m.settings {
		if s.failure == nil && s.Latency.Count() == 0 {
			s.failure = cmp.Or(s.Failure, errNoCall)
		}
	}
	return stopped
}

// errNoCall is why a setting has no figures whose calls did not fail.
var errNoCall = errors.New("no call ended")

func (m *measurement) takeTurns(ctx context.Context) {
	for range m.rounds {
		for _, s := range m.settings {
			if s.failure == nil {
				m.progress.turn(s.name())
				rounds := len(s.perSRounds)
				failure := m.turn(ctx, s)
				// What was stopped before it was measured says nothing of the setting.
				if ctx.Err() == nil || len(s.perSRounds) > rounds {
					s.failure = failure
				}
			}
			if ctx.Err() != nil {
				return
			}
			m.progress.add()
		}
	}
}

func (m *measurement) turnLength() time.Duration { return m.warmUp + m.roundLength() }

func (b *benching) roundLength() time.Duration { return max(b.duration/time.Duration(b.rounds), 1) }

// turn measures a setting once, on connections of its own.
func (m *measurement) turn(ctx context.Context, s *benchSetting) error {
	clients, err := m.connect(m.address, s)
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	if err != nil {
		return err
	}
	calls := s.calls(clients)
	if err := load.Once(ctx, calls, connectingAtATime); err != nil {
		return err
	}
	server := serverProcess(ctx, clients[0])
	if err := m.warm(ctx, s, clients, calls); err != nil {
		return err
	}
	before, err := cpuOf(server)
	if err != nil {
		return err
	}
	ways := waysOf(clients)
	r := load.Run(ctx, calls, m.rate, m.roundLength())
	connections := countWays(ways, waysOf(clients))
	after, err := cpuOf(server)
	if err != nil {
		return err
	}
	if ctx.Err() != nil && r.Latency.Count()+r.Failed == 0 {
		return ctx.Err()
	}
	s.add(&r, before, after, connections)
	return s.wrongTransport()
}

// warm calls before anything is measured, and not paced: that would be too few calls
// for connections to get shared memory. Where it was asked for, all are waited for. An
// error says that somebody stopped it.
func (m *measurement) warm(ctx context.Context, s *benchSetting, clients []*client.Client, calls []load.Call) error {
	asked := asClientTells[s.transport]
	elsewhere := func(way string) bool { return asked != "" && way != asked }
	for range warmUpsMax {
		load.Run(ctx, calls, 0, m.warmUp)
		if ctx.Err() != nil || !slices.ContainsFunc(waysOf(clients), elsewhere) {
			break
		}
	}
	return ctx.Err()
}

// waysOf asks each connection how it carries calls.
func waysOf(clients []*client.Client) []string {
	ways := make([]string, len(clients))
	for i, c := range clients {
		ways[i] = c.Transport()
	}
	return ways
}

// countWays counts connections by how they carried calls, and what that became.
func countWays(before, after []string) map[string]int {
	counts := map[string]int{}
	for i, way := range before {
		// A server that is gone leaves what was before.
		if last := cmp.Or(after[i], way); last != way {
			way = fmt.Sprintf("%s, then %s", cmp.Or(way, "none"), last)
		}
		counts[way]++
	}
	return counts
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

// failureOf is the error of a run whose settings or calls failed.
func failureOf(settings []*benchSetting) error {
	if len(settings) == 1 {
		return settings[0].Failure
	}
	failed := 0
	for _, s := range settings {
		if s.failure != nil || s.Failure != nil {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d settings failed; their rows say why", failed, len(settings))
}
