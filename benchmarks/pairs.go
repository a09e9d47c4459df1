package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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
	// comparedGroups are compared where -only says nothing else.
	comparedGroups = "^(small|embed|pipelined)$"
	turnsName      = "turns.json"
)

// errSlower ends a comparison that has said everything.
var errSlower = errors.New("head is slower than base")

// A side is one of two trees whose calls are compared, with the row under way.
type side struct {
	name  string
	scene *scene
	group group // of that row alone
	row   measuredRow
}

// compare says whether calls of -root are slower than those of another tree, by turns that are measured now or, to be
// judged again, were before.
func (o options) compare(ctx context.Context) error {
	if o.out == "" {
		return errors.New("-base and -judge want -out FOLDER beside them")
	}
	path := filepath.Join(o.out, turnsName)
	if !o.judge {
		o.quick, o.only = true, cmp.Or(o.only, comparedGroups)
		if err := o.measureSets(ctx, path); err != nil {
			return err
		}
	}
	rows, err := gate.Read(path)
	if err != nil {
		return err
	}
	judged, err := gate.Judge(rows)
	if err := errors.Join(err, gate.Print(os.Stdout, judged)); err != nil {
		return err
	}
	if slices.ContainsFunc(judged, gate.Judgement.Worse) {
		return errSlower
	}
	return nil
}

// measureSets measures rows of two trees, and keeps the figure of every turn, after each set.
func (o options) measureSets(ctx context.Context, path string) error {
	if o.sets < gate.SetsMin {
		return fmt.Errorf("%d sets: no difference is told from chance by fewer than %d", o.sets, gate.SetsMin)
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
	each := 2 * (serversStart + callerStart + pairWarmUp + time.Duration(o.pairs)*(pairLength+roundEnds)) // about, for a row
	watch := newProgress(os.Stderr, time.Duration(o.sets*len(groups))*each)
	defer watch.end()
	var rows []gate.Row
	for n := range o.sets {
		watch.begin(fmt.Sprintf("set %d of %d", n+1, o.sets), time.Duration(len(groups))*each)
		set := make([]gate.Row, len(groups))
		for _, i := range rand.Perm(len(groups)) {
			below := filepath.Join(folder, fmt.Sprintf("%d-%d", n, i))
			set[i] = takePairs(ctx, o.pairs,
				&side{name: "base", group: groupsOfBase[i], scene: &scene{tools: base.tools, progress: watch, folder: below + "-base"}},
				&side{name: "head", group: groups[i], scene: &scene{tools: o.tools, progress: watch, folder: below + "-head"}})
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			watch.add(each)
		}
		if rows, err = gate.Join(rows, set); err != nil {
			return err
		}
		if err := gate.Write(path, rows); err != nil {
			return err
		}
	}
	return nil
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

// takePairs measures one row of both sides. All processes are started anew for each row of a set: how fast calls are
// is also a matter of where their memory came to lie.
func takePairs(ctx context.Context, pairs int, base, head *side) gate.Row {
	base.on(func() {
		head.on(func() { takeTurnsInPairs(ctx, pairs, base, head) })
	})
	row := gate.Row{Name: head.row.plan.name, Bytes: head.row.plan.size, FailedBase: base.row.failed, FailedHead: head.row.failed}
	if row.FailedBase == "" && row.FailedHead == "" {
		of := comparedFigure(head.row.plan)
		row.Sets = []gate.Set{{Base: base.row.figures(of), Head: head.row.figures(of)}}
	}
	return row
}

// comparedFigure is what of a turn is compared: what the fastest tenth of calls took or, where
// many calls are in flight, what each call of the whole turn took. Of those the scheduler makes
// two kinds of samples, all requests read at once or a part of them one by one, and a server
// that needs less time is let in between more often: fast samples are fewer and longer, and
// calls take less time.
func comparedFigure(row rowPlan) func(round) float64 {
	if row.callers > 1 {
		return ofEachCall
	}
	return p10
}

func ofEachCall(r round) float64 { return 1e9 / r.perSecond } // ns

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
