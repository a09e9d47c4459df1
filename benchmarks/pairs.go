package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/gate"
	"github.com/nearcall/nearcall/benchmarks/process"
)

// The turns of a comparison of two trees. Moods of a machine last longer than two of
// these, so they hit both; and none is so short that its p10 would be of few calls.
const (
	pairLength = 20 * time.Millisecond
	pairWarmUp = 150 * time.Millisecond
	pairsUsual = 24
)

// A side is one of two trees whose calls are compared, with the row under way.
type side struct {
	name  string
	scene *scene
	group group // of that row alone
	row   measuredRow
}

// measurePairs measures rows of two trees, and keeps the p10 of every turn. All
// processes are started anew for each row: how fast calls are is also a matter of where
// their memory came to lie.
func (o options) measurePairs(ctx context.Context) error {
	if o.out == "" {
		return errors.New("-base wants -out FOLDER beside it")
	}
	base := o
	base.root, base.python = o.base, filepath.Join(o.base, "build/venv/bin/python")
	// Both sides have the rows that this program has, in the same order.
	groups, err := o.singleRows()
	if err != nil {
		return err
	}
	groupsOfBase, err := base.singleRows()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "nearcall-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	watch := newProgress(os.Stderr, time.Duration(len(groups))*o.lengthOfPairs())
	defer watch.end()
	rows := make([]gate.Row, len(groups))
	for _, i := range rand.Perm(len(groups)) {
		path := filepath.Join(folder, strconv.Itoa(i))
		rows[i] = takePairs(ctx, o.pairs(),
			&side{name: "base", group: groupsOfBase[i], scene: &scene{tools: base.tools, progress: watch, folder: path + "-base"}},
			&side{name: "head", group: groups[i], scene: &scene{tools: o.tools, progress: watch, folder: path + "-head"}})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		watch.add(o.lengthOfPairs())
	}
	return gate.Write(filepath.Join(o.out, gate.SetName), rows)
}

func (o options) pairs() int {
	if o.rounds > 0 {
		return o.rounds
	}
	return pairsUsual
}

// lengthOfPairs is about how long it takes to compare a row.
func (o options) lengthOfPairs() time.Duration {
	return 2 * (serversStart + callerStart + pairWarmUp + time.Duration(o.pairs())*(pairLength+roundEnds))
}

// singleRows are groups of one row each: of all rows that are the project's own to make
// slower, which floors are not.
func (o options) singleRows() ([]group, error) {
	planned, err := o.schedule("")
	if err != nil {
		return nil, err
	}
	var single []group
	for _, group := range planned.groups {
		for _, row := range group.rows {
			if !strings.HasPrefix(row.name, "floor-") && row.notMeasured == "" {
				one := group
				one.rows = []rowPlan{row}
				single = append(single, one)
			}
		}
	}
	return single, nil
}

// takePairs measures one row of both sides.
func takePairs(ctx context.Context, pairs int, base, head *side) gate.Row {
	base.on(func() {
		head.on(func() { takeTurnsInPairs(ctx, pairs, base, head) })
	})
	row := gate.Row{Name: head.row.plan.name, Bytes: head.row.plan.size, FailedBase: base.row.failed, FailedHead: head.row.failed}
	if row.FailedBase == "" && row.FailedHead == "" {
		row.Sets = []gate.Set{{Base: base.row.figures(p10), Head: head.row.figures(p10)}}
	}
	return row
}

// on does something on the scene of the side, which ends with it.
func (s *side) on(do func()) {
	s.row = measuredRow{group: s.group.name, plan: s.group.rows[0]}
	if err := s.scene.with(s.group, do); err != nil {
		s.scene.fail(&s.row, fmt.Errorf("%s: %w", s.name, err))
	}
}

// takeTurnsInPairs lets both sides call in turns; chance says who is first in each pair.
func takeTurnsInPairs(ctx context.Context, pairs int, base, head *side) {
	for _, s := range []*side{base, head} {
		defer s.row.stop()
		s.attempt("start", s.start)
	}
	for range pairs {
		if ctx.Err() != nil || base.row.failed != "" || head.row.failed != "" {
			return
		}
		pair := []*side{base, head}
		rand.Shuffle(len(pair), func(i, j int) { pair[i], pair[j] = pair[j], pair[i] })
		for _, s := range pair {
			s.attempt("turn", s.takeTurn)
		}
	}
}

func (s *side) attempt(part string, do func() error) {
	s.scene.attempt(&s.row, s.name+", "+part, do)
}

func (s *side) start() error {
	// Go would take a process that is held to one CPU for one on a smaller machine.
	s.scene.prefix = append(s.scene.prefix, "env", "GOMAXPROCS="+strconv.Itoa(runtime.GOMAXPROCS(0)))
	s.scene.servers = map[serverPlan]*process.Process{}
	if err := s.scene.startServer(s.row.plan); err != nil {
		return err
	}
	if err := s.scene.startCallers(&s.row); err != nil {
		return err
	}
	if err := s.holdTogether(); err != nil {
		return err
	}
	_, err := s.scene.measure(&s.row, pairWarmUp)
	return err
}

// holdTogether holds both ends of a socket to one CPU, where the kernel places them anyhow,
// most of the time: apart they take half as long again or five times as long, and chance
// would say which side is apart in how many turns. Who shares memory needs two CPUs.
func (s *side) holdTogether() error {
	server := s.scene.servers[s.row.plan.server]
	if server == nil || s.row.plan.route != bySocket || s.group.confined != nil {
		return nil
	}
	cpu, err := firstCPU()
	if err != nil {
		return err
	}
	for _, p := range append([]*process.Process{server}, s.row.callers...) {
		if err := holdTo(p, cpu); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) takeTurn() error {
	measured, err := s.scene.measure(&s.row, max(pairLength, s.group.length))
	if err != nil {
		return err
	}
	return s.row.keep(measured)
}
