package server

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A Direct runs functions for callers within this process, in the goroutine of
// the caller. Package embed is what it is made for; programs in Go just call
// their functions. Its methods may be called by any number of goroutines.
type Direct struct {
	server *Server
	table  *functionTable
	peer   Peer
	runs   sync.Pool // of *DirectRun

	// The same moment, so that deadlines need no clock to be read.
	started   time.Time
	startedNs uint64
}

// Direct returns the server's functions for calls within this process. From then
// on none can be registered.
func (s *Server) Direct() (*Direct, error) {
	table, err := s.prepare()
	if err != nil {
		return nil, err
	}
	d := &Direct{server: s, table: table, started: time.Now(), startedNs: s.clock.Ns(), peer: Peer{
		Local: true, UserID: uint32(os.Geteuid()), GroupID: uint32(os.Getegid()), ProcessID: int32(os.Getpid()),
	}}
	d.runs.New = func() any { return &DirectRun{direct: d, execution: execution{server: s}} }
	return d, nil
}

// Serve serves other processes as Server.Serve does. It belongs to a program that
// is not in Go, whose log should not begin with it: so it says so at the level
// debug only.
func (d *Direct) Serve(ctx context.Context, listener net.Listener) error {
	return d.server.serve(ctx, listener, slog.LevelDebug)
}

// Find returns the number of a function, 0 when there is none of that name.
func (d *Direct) Find(name string) uint32 {
	if f := d.table.byName[name]; f != nil {
		return f.id
	}
	return 0
}

// Overran notes that a call of the function took so long that its caller should
// have been able to leave it: the next ones are not run directly.
func (d *Direct) Overran(function uint32) {
	if f := d.table.find(function); f != nil {
		f.blocked()
	}
}

// A DirectRun is a call that has ended. Its bytes are valid until Release.
type DirectRun struct {
	direct    *Direct
	execution execution
	contexts  contextSupply
	untimed   int
	failure   []byte
}

// Run runs a function. It returns nil, and does nothing, for one that is not run
// directly: it has proved to be slow, or its registration limits how it runs, so
// that its caller must be able to leave it at its deadline. payload must stay as
// it is until then; deadlineNs is of CLOCK_MONOTONIC, 0 is none.
func (d *Direct) Run(function uint32, by uint8, payload []byte, deadlineNs uint64) *DirectRun {
	f := d.table.find(function)
	if f != nil && !f.inline() {
		return nil
	}
	run := d.runs.Get().(*DirectRun)
	e := &run.execution
	e.function, e.codec, e.payload = f, wire.Codec(by), payload
	switch {
	case f == nil:
		e.err = refusedf(status.Unimplemented, "the library has no function with the number %d", function)
	case len(payload) > d.server.config.frameBytesMax:
		e.err = refusedf(status.ResourceExhausted, "the request has %d bytes, the library accepts %d (limit frame_bytes_max); %s", len(payload), d.server.config.frameBytesMax, raiseFrameBytes)
	default:
		run.run(deadlineNs)
	}
	return run
}

func (r *DirectRun) run(deadlineNs uint64) {
	e, f := &r.execution, r.execution.function
	ctx := context.Background()
	if f.TakesContext() || len(e.server.config.interceptors) > 0 {
		e.context = r.newContext(deadlineNs)
		ctx = e.context
	}
	if f.instant() && r.untimed < untimedMax {
		r.untimed++
		e.run(ctx)
		f.count(e.err != nil)
	} else {
		r.untimed = 0
		started := time.Now()
		e.run(ctx)
		f.ran(time.Since(started), e.err != nil)
	}
	if e.context != nil {
		e.cancel(context.Canceled)
	}
}

func (r *DirectRun) newContext(deadlineNs uint64) *callContext {
	made := r.contexts.next()
	made.function, made.peer = r.execution.function.name, &r.direct.peer
	if deadlineNs > 0 {
		made.deadline = r.direct.started.Add(time.Duration(deadlineNs - r.direct.startedNs))
	}
	return made
}

// Reply returns the result, or the error's payload with its code and outcome.
func (r *DirectRun) Reply() (payload []byte, code, outcome uint8) {
	e := &r.execution
	if e.err == nil {
		return e.result, 0, 0
	}
	failure := status.FromError(e.err)
	r.failure = codec.AppendFailure(r.failure[:0], failure)
	return r.failure, uint8(failure.Code), uint8(failure.Outcome)
}

// Release gives the run back.
func (r *DirectRun) Release() {
	e := &r.execution
	e.context, e.payload, e.result, e.err = nil, nil, nil, nil
	r.direct.runs.Put(r)
}
