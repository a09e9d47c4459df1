package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
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
	if g.onlyFull != nil {
		return p.ofOnlyFull(*g.onlyFull).withAsked(p.asked)
	}
	length, rounds := g.length, g.rounds
	if p.quick {
		length, rounds = cmp.Or(g.quickLength, g.length), g.quickRounds
	}
	p.length = max(p.length, length)
	if rounds > 0 {
		p.rounds = rounds
	}
	p = p.withAsked(p.asked)
	if g.slices > 0 {
		p.length /= time.Duration(g.slices)
		p.rounds *= g.slices
	}
	return p
}

// withAsked returns the pace with as many rounds as somebody asked for, if anybody did.
func (p pace) withAsked(rounds int) pace {
	if rounds > 0 {
		p.rounds = rounds
	}
	return p
}

// ofOnlyFull returns the pace of a group that is in full runs only. A quick run that
// names it is for seeing that it works.
func (p pace) ofOnlyFull(own pace) pace {
	if p.quick {
		own.quick, own.rounds, own.length, own.warmUp = true, min(own.rounds, 2), min(own.length, quickPace.length), min(own.warmUp, 20*time.Millisecond)
	}
	return own
}

// A scene is where the processes of one group run.
type scene struct {
	tools
	progress *progress
	folder   string   // of the sockets
	prefix   []string // what commands are started with
	servers  map[serverName]*process
	web      *web // where rows go to one, or a part does
	// idle have connections that say nothing, beside those of rows.
	idle []*process
	// beside is who else has the machine; nil: nobody.
	beside *process
	// resident is where functions of a resident command are called.
	resident string
}

// path is where a server listens.
func (s *scene) path(name serverName) string {
	names := map[serverName]string{cServer: "c.sock", spinServer: "spin.sock", goServer: "go.sock", testServer: "nearcall.sock", sessionServer: "session.sock"}
	return filepath.Join(s.folder, names[name])
}

// start starts a program as the scene's confinement wants it.
func (s *scene) start(command ...string) (*process, error) {
	command = append(s.prefix[:len(s.prefix):len(s.prefix)], command...)
	return startProcess(command[0], command[1:]...)
}

// startServers starts every server that the rows call; rows whose server does not
// start fail. The caller stops them, also those that an error left.
func (s *scene) startServers(rows []measuredRow) {
	s.servers = map[serverName]*process{}
	for i := range rows {
		if why := rows[i].plan.notMeasured; why != "" {
			s.fail(&rows[i], errors.New(why))
			continue
		}
		if err := s.startServer(rows[i].plan); err != nil {
			s.fail(&rows[i], err)
		}
	}
}

// startServer starts the server of a row, unless it runs.
func (s *scene) startServer(row rowPlan) error {
	commands := map[serverName][]string{
		cServer:    {s.built("echo_server"), s.path(cServer)},
		spinServer: {s.built("spin_server"), s.path(spinServer)},
		goServer:   {s.built("bareserver"), s.path(goServer)},
		testServer: {s.built("testserver"), "-address", "unix:" + s.path(testServer)},

		sessionServer: {"setsid", s.built("testserver"), "-address", "unix:" + s.path(sessionServer)},
	}
	if s.servers[row.server] != nil {
		return nil
	}
	if start := s.starter(row); start != nil {
		return start()
	}
	if commands[row.server] == nil {
		return nil
	}
	server, err := s.start(commands[row.server]...)
	if err != nil {
		return err
	}
	s.servers[row.server] = server
	return nil
}

// starter returns what starts a server that is more than one process; nil: nothing
// does.
func (s *scene) starter(row rowPlan) func() error {
	switch {
	case row.route == byWeb:
		return func() error { return s.startWeb(row.server) }
	case row.server == residentServer:
		return s.startResident
	case isIdleServer(row.server):
		return func() error { return s.startIdleServer(row.server) }
	case s.endpoint(row.server) != nil:
		return func() error { return s.startEndpoint(row.server) }
	}
	return nil
}

func (s *scene) stopServers() {
	for _, idle := range s.idle {
		idle.stop()
	}
	for _, server := range s.servers {
		server.stop()
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
		environment, err := s.residents()
		if err != nil {
			return err
		}
		command = append([]string{"env", environment}, command...)
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

// address returns where the callers of a row find what they call.
func (s *scene) address(plan rowPlan) string {
	switch plan.route {
	case byWeb:
		return "tcp:" + s.web.hostPort(plan.server)
	case byRun:
		return plan.command.address()
	}
	if plan.server == residentServer {
		return s.resident + plan.route.parameter()
	}
	if s.endpoint(plan.server) != nil {
		return s.endpointAddress(plan)
	}
	switch plan.server {
	case testLibrary:
		return "embed:" + s.built("libtestlibrary.so")
	case emptyLibrary:
		return "embed:" + s.built("libempty.so")
	}
	return "unix:" + s.path(plan.server) + plan.route.parameter()
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
		defer s.beside.stop()
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
	for server := s.servers[row.plan.server]; server != nil; server = server.behind {
		if end := server.end(); end != nil {
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
		kernel = watchKernel(append([]*process{s.servers[row.plan.server]}, row.callers...))
		defer kernel.close()
	}
	turn := row.plan.turn(length)
	turn.beside = s.beside
	return measure(row.callers, clock, kernel, turn)
}
