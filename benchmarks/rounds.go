package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// pace is how long everything takes.
type pace struct {
	quick  bool
	asked  int // rounds that somebody asked for; 0: as usual
	rounds int
	length time.Duration // of one row in one round
	warmUp time.Duration
}

var (
	fullPace  = pace{rounds: 13, length: 250 * time.Millisecond, warmUp: 400 * time.Millisecond}
	quickPace = pace{quick: true, rounds: 7, length: 40 * time.Millisecond, warmUp: 40 * time.Millisecond}
)

// of returns the pace of a group.
func (p pace) of(g group) pace {
	asked := p.asked
	switch {
	case g.onlyFull != nil && p.quick: // it is for seeing that the group works
		own := *g.onlyFull
		p = pace{quick: true, rounds: min(own.rounds, 2), length: min(own.length, quickPace.length), warmUp: min(own.warmUp, 20*time.Millisecond)}
	case g.onlyFull != nil:
		p = *g.onlyFull
	case p.quick:
		p.length, p.rounds = max(p.length, cmp.Or(g.quickLength, g.length)), cmp.Or(g.quickRounds, p.rounds)
	default:
		p.length, p.rounds = max(p.length, g.length), cmp.Or(g.rounds, p.rounds)
	}
	p.rounds = cmp.Or(asked, p.rounds)
	if g.slices > 0 {
		p.length /= time.Duration(g.slices)
		p.rounds *= g.slices
	}
	return p
}

// A scene is where the processes of one group run.
type scene struct {
	tools
	progress *progress
	folder   string   // of the sockets
	prefix   []string // what commands are started with
	servers  map[serverPlan]*process.Process
	sockets  int // that servers were given so far
	web      web // where rows go to one, or a part does
	// others are what runs beside servers, such as connections that say nothing.
	others []*process.Process
	// beside is who else has the machine; nil: nobody.
	beside *process.Process
	// resident is where functions of a resident command are called.
	resident string
}

// start starts a program as the scene's confinement wants it.
func (s *scene) start(command ...string) (*process.Process, error) {
	command = append(s.prefix[:len(s.prefix):len(s.prefix)], command...)
	return process.Start(command...)
}

// also lets the scene stop what was started beside servers.
func (s *scene) also(p *process.Process, err error) error {
	if err == nil {
		s.others = append(s.others, p)
	}
	return err
}

func (s *scene) stopServers() {
	for _, other := range s.others {
		other.Stop()
	}
	for _, server := range s.servers {
		server.Stop()
	}
}

// startCallers starts the callers of a row. Those started are in the row also after
// an error.
func (s *scene) startCallers(row *measuredRow) error {
	plan := row.plan
	address := s.address(plan)
	command := append(plan.program[:len(plan.program):len(plan.program)], address, strconv.Itoa(plan.size))
	command = append(command, plan.arguments...)
	if plan.route == byRun {
		r := s.residence()
		if err := os.MkdirAll(r.folder, 0o700); err != nil {
			return err
		}
		command = slices.Concat([]string{"env"}, r.environment(), command)
	}
	for range plan.processes {
		caller, err := s.start(command...)
		if err != nil {
			return fmt.Errorf("%s: %w", plan.name, err)
		}
		row.callers = append(row.callers, caller)
	}
	return nil
}

// runGroup measures a group with servers of its own, confined as it wants. Its rows
// are there also after an error; those without rounds have failed.
func (t tools) runGroup(ctx context.Context, g group, folder string, p pace, progress *progress) ([]measuredRow, error) {
	rows := make([]measuredRow, len(g.rows))
	for i, plan := range g.rows {
		rows[i] = measuredRow{group: g.name, plan: plan, pace: p.of(g), beside: g.beside}
		if g.confined != nil && plan.pinning == "" {
			rows[i].plan.pinning = g.confined.pinning()
		}
	}
	s := &scene{tools: t, progress: progress, folder: filepath.Join(folder, g.name)}
	return rows, s.with(g, func() {
		s.startServers(rows)
		s.takeTurns(ctx, rows, p.of(g))
	})
}

// with does something on the scene, which is confined, has a folder and whoever is beside a
// group; what was started there ends with it.
func (s *scene) with(g group, do func()) (err error) {
	if err := os.Mkdir(s.folder, 0o700); err != nil {
		return err
	}
	if g.confined != nil {
		prefix, leave, failed := g.confined.enter()
		if failed != nil {
			return failed
		}
		s.prefix = prefix
		defer func() { err = errors.Join(err, leave()) }()
	}
	defer func() { err = errors.Join(err, s.stopResidents()) }()
	defer s.stopServers()
	if g.beside != nil {
		if s.beside, err = g.beside.start(s.tools); err != nil {
			return err
		}
		defer s.beside.Stop()
	}
	do()
	return nil
}

// takeTurns measures the rows of a group in turns, so that drift of the machine hits
// all alike. Every second round runs backwards, so that nobody always follows the
// same neighbour. A row that fails takes no more turns, and nobody does when the
// context has ended.
func (s *scene) takeTurns(ctx context.Context, rows []measuredRow, p pace) {
	for i := range rows {
		if ctx.Err() != nil {
			break
		}
		defer rows[i].stop()
		s.progress.row(rows[i].plan.name)
		s.attempt(&rows[i], "warm-up", func() error {
			if err := s.startCallers(&rows[i]); err != nil {
				return err
			}
			_, err := s.measure(&rows[i], p.warmUp)
			return err
		})
		s.progress.add(p.startOf(rows[i].plan))
	}
	for n := range p.rounds {
		for turn := range rows {
			if ctx.Err() != nil {
				break
			}
			i := turn
			if n%2 == 1 {
				i = len(rows) - 1 - turn
			}
			s.progress.row(rows[i].plan.name)
			s.attempt(&rows[i], fmt.Sprintf("round %d", n+1), func() error {
				measured, err := s.measure(&rows[i], p.length)
				if err == nil {
					err = rows[i].keep(measured)
				}
				return err
			})
			s.progress.add(p.turnOf(rows[i].plan))
		}
	}
	for i := range rows {
		rows[i].summarise()
	}
}

// attempt does the next part of measuring a row, unless one before has failed.
func (s *scene) attempt(row *measuredRow, part string, do func() error) {
	if row.failed != "" {
		return
	}
	if err := do(); err != nil {
		s.fail(row, fmt.Errorf("%s: %w", part, err))
	}
}

// fail gives a row up and says why: what the server said before it ended belongs to it.
func (s *scene) fail(row *measuredRow, err error) {
	for server := s.servers[row.plan.server]; server != nil; server = server.Behind {
		if end := server.End(); end != nil {
			err = fmt.Errorf("%w; its server %w", err, end)
		}
	}
	row.fail(err)
	s.progress.say("%s failed: %s", row.plan.name, row.failed)
}

// measure makes a round of a row.
func (s *scene) measure(row *measuredRow, length time.Duration) (round, error) {
	clock := s.serverClock(row)
	var kernel *kernelWatch
	if row.plan.counted {
		kernel = &kernelWatch{processes: append([]*process.Process{s.servers[row.plan.server]}, row.callers...)}
	}
	turn := row.plan.turn(length)
	turn.beside = s.beside
	return measure(row.callers, clock, kernel, turn)
}
