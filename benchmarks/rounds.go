package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
)

// pace is how long everything takes.
type pace struct {
	rounds      int
	length      time.Duration // of one row in one round
	warmUp      time.Duration
	idleSeconds int
}

var (
	fullPace  = pace{rounds: 21, length: 500 * time.Millisecond, warmUp: time.Second, idleSeconds: 30}
	quickPace = pace{rounds: 13, length: 90 * time.Millisecond, warmUp: 90 * time.Millisecond, idleSeconds: 5}
)

// An address is where a server listens.
func address(folder string, name serverName) string {
	paths := map[serverName]string{cServer: "c.sock", goServer: "go.sock", testServer: "nearcall.sock"}
	return "unix:" + filepath.Join(folder, paths[name])
}

// startServers starts every server that rows call. The caller stops them, also
// those that an error left.
func (t tools) startServers(folder string) (map[serverName]*process, error) {
	path := func(name serverName) string { return address(folder, name)[len("unix:"):] }
	commands := map[serverName][]string{
		cServer:    {t.built("echo_server"), path(cServer)},
		goServer:   {t.built("bareserver"), path(goServer)},
		testServer: {t.built("testserver"), "-address", address(folder, testServer)},
	}
	servers := map[serverName]*process{}
	for name, command := range commands {
		server, err := startProcess(command[0], command[1:]...)
		if err != nil {
			return servers, err
		}
		servers[name] = server
	}
	return servers, nil
}

// A measuredRow is a row with what its rounds were.
type measuredRow struct {
	plan   rowPlan
	rounds []round
}

// runGroup measures the rows of a group in turns, so that drift of the machine hits
// all alike. Every second round runs backwards, so that nobody always follows the
// same neighbour.
func (t tools) runGroup(plans []rowPlan, servers map[serverName]*process, folder string, p pace) ([]measuredRow, error) {
	rows := make([]measuredRow, len(plans))
	callers := make([]*process, len(plans))
	for i, plan := range plans {
		args := append(plan.program[1:len(plan.program):len(plan.program)],
			address(folder, plan.server), strconv.Itoa(plan.size))
		if plan.callers > 1 || plan.program[0] == t.built("gocaller") {
			args = append(args, strconv.Itoa(plan.callers))
		}
		caller, err := startProcess(plan.program[0], args...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plan.name, err)
		}
		defer caller.stop()
		rows[i], callers[i] = measuredRow{plan: plan}, caller
		if _, err := measure(caller, servers[plan.server], p.warmUp, 0); err != nil {
			return nil, fmt.Errorf("%s, warm-up: %w", plan.name, err)
		}
	}
	for n := range p.rounds {
		for turn := range plans {
			i := turn
			if n%2 == 1 {
				i = len(plans) - 1 - turn
			}
			plan := plans[i]
			measured, err := measure(callers[i], servers[plan.server], p.length, plan.perSecond)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", plan.name, n+1, err)
			}
			rows[i].rounds = append(rows[i].rounds, measured)
		}
	}
	return rows, nil
}

// figures returns one figure of all rounds.
func (m measuredRow) figures(of func(round) float64) []float64 {
	values := make([]float64, len(m.rounds))
	for i, r := range m.rounds {
		values[i] = of(r)
	}
	return values
}

func p50(r round) float64       { return r.p50 }
func p99(r round) float64       { return r.p99 }
func perSecond(r round) float64 { return r.perSecond }

// reduced returns the row that is reported.
func (m measuredRow) reduced() result.Row {
	var calls, serverCPU, callerCPU float64
	for _, r := range m.rounds {
		calls += float64(r.calls)
		callerCPU += r.callerCPU.Seconds()
		serverCPU += r.serverCPU.Seconds()
	}
	return result.Row{
		Name: m.plan.name, Size: m.plan.size, Callers: m.plan.callers,
		P50NS:  int64(sample.Median(m.figures(p50))),
		P99NS:  int64(sample.Median(m.figures(p99))),
		PerS:   math.Round(sample.Median(m.figures(perSecond))),
		Calls:  int64(calls),
		Rounds: len(m.rounds),

		CallerCPU: rounded(callerCPU/calls*1e6, 2),
		ServerCPU: rounded(serverCPU/calls*1e6, 2),

		P50NSRounds: m.figures(p50),
		PerSRounds:  m.figures(func(r round) float64 { return math.Round(r.perSecond) }),
	}
}

// compared returns a ratio: of each round, then the median of these.
func compared(plan ratioPlan, rows []measuredRow) (result.Ratio, error) {
	above, err := find(rows, plan.above, plan.aboveSize)
	if err != nil {
		return result.Ratio{}, err
	}
	below, err := find(rows, plan.below, plan.belowSize)
	if err != nil {
		return result.Ratio{}, err
	}
	figure := p50
	if plan.figure == figurePerS {
		figure = perSecond
	}
	value := rounded(sample.Median(sample.Ratios(above.figures(figure), below.figures(figure))), 3)
	return result.Ratio{
		Above: plan.above, Below: plan.below, Size: plan.aboveSize, Figure: plan.figure,
		Value: value, Goal: plan.goal.Judged(value),
	}, nil
}

func find(rows []measuredRow, name string, size int) (measuredRow, error) {
	for _, row := range rows {
		if row.plan.name == name && row.plan.size == size {
			return row, nil
		}
	}
	return measuredRow{}, fmt.Errorf("a ratio names the row %s of %d bytes, which was not measured", name, size)
}

func rounded(value float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(value*scale) / scale
}
