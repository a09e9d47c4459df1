package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/direct"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/status"
)

// serveLibrary serves a library, which is given its functions for calls within the process
// first.
func (s *Server) serveLibrary(ctx context.Context, listener direct.Listener) error {
	functions, err := s.newInProcess()
	if err == nil {
		err = listener.Take(functions)
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return s.serve(ctx, listener, slog.LevelDebug)
}

// An inProcess implements direct.Functions.
type inProcess struct {
	server *Server
	table  *functionTable
	peer   Peer
	runs   sync.Pool // of *inProcessRun

	// observed is what the observer is told of these calls, nil without an observer.
	observed *observe.Connection

	// started and startedNs are the same moment, so that a deadline can be converted
	// without reading a clock.
	started   time.Time
	startedNs uint64
}

// newInProcess returns the server's functions for calls within this process. No more
// functions can be registered after that.
func (s *Server) newInProcess() (*inProcess, error) {
	table, err := s.prepare()
	if err != nil {
		return nil, err
	}
	d := &inProcess{server: s, table: table, started: time.Now(), startedNs: s.clock.Ns(), peer: Peer{
		Local: true, UserID: uint32(os.Geteuid()), GroupID: uint32(os.Getegid()), ProcessID: int32(os.Getpid()),
	}}
	d.runs.New = func() any { return &inProcessRun{direct: d, execution: execution{server: s}} }
	if s.config.observer != nil {
		d.observed = s.observeInProcess(d.peer)
	}
	return d, nil
}

func (d *inProcess) Find(name string) uint32 {
	if f := d.table.byName[name]; f != nil {
		return f.id
	}
	return 0
}

func (d *inProcess) Overran(function uint32) {
	if f := d.table.find(function); f != nil {
		f.blocked()
	}
}

// An inProcessRun implements direct.Run.
type inProcessRun struct {
	direct    *inProcess
	execution execution
	contexts  contextSupply
	untimed   int
	failure   []byte
}

func (d *inProcess) Run(function uint32, by uint8, payload, extensions []byte, deadlineNs uint64) direct.Run {
	f := d.table.find(function)
	if f != nil && !f.inline() {
		return nil
	}
	run := d.runs.Get().(*inProcessRun)
	e := &run.execution
	e.function, e.codec, e.payload = f, wire.Codec(by), payload
	switch {
	case f == nil:
		e.err = refusedf(status.Unimplemented, "the library has no function with the number %d", function)
	case len(payload) > d.server.config.frameBytesMax:
		e.err = refusedf(status.ResourceExhausted, "the request has %d bytes, the library accepts %d (limit frame_bytes_max); %s", len(payload), d.server.config.frameBytesMax, raiseFrameBytes)
	default:
		run.run(extensions, deadlineNs)
	}
	return run
}

func (r *inProcessRun) run(extensions []byte, deadlineNs uint64) {
	e, f := &r.execution, r.execution.function
	ctx := context.Background()
	if f.needsContext {
		e.context = r.newContext(extensions, deadlineNs)
		ctx = e.context
	}
	if r.direct.observed != nil {
		e.observeBegin(r.direct.observed)
		e.observeStart()
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
	if r.direct.observed != nil {
		e.observeEnd(status.FromError(e.err), len(e.result))
	}
}

func (r *inProcessRun) newContext(extensions []byte, deadlineNs uint64) *callContext {
	made := r.contexts.next()
	made.function, made.peer = r.execution.function.name, &r.direct.peer
	if len(extensions) > 0 {
		made.theCall().parseMetadata(extensions)
	}
	if deadlineNs > 0 {
		made.deadline = r.direct.started.Add(time.Duration(deadlineNs - r.direct.startedNs))
	}
	return made
}

func (r *inProcessRun) Extensions() []byte { return r.execution.context.takeReply() }

func (r *inProcessRun) Reply() (payload []byte, code, outcome uint8) {
	e := &r.execution
	if e.err == nil {
		return e.result, 0, 0
	}
	failure := status.FromError(e.err)
	r.failure = codec.AppendFailure(r.failure[:0], failure)
	return r.failure, uint8(failure.Code), uint8(failure.Outcome)
}

func (r *inProcessRun) Release() {
	e := &r.execution
	e.context, e.payload, e.result, e.err = nil, nil, nil, nil
	r.direct.runs.Put(r)
}
