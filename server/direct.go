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
	origin contextOrigin
	runs   sync.Pool // of *inProcessRun

	// observed is what the observer is told of these calls, nil without an observer.
	observed *observe.Connection
}

// newInProcess returns the server's functions for calls within this process. No more
// functions can be registered after that.
func (s *Server) newInProcess() (*inProcess, error) {
	table, err := s.prepare()
	if err != nil {
		return nil, err
	}
	d := &inProcess{server: s, table: table, peer: Peer{
		Local: true, UserID: uint32(os.Geteuid()), GroupID: uint32(os.Getegid()), ProcessID: int32(os.Getpid()),
	}}
	d.origin = contextOrigin{clock: &s.clock, peer: &d.peer}
	d.runs.New = func() any { return d.newRun() }
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

// An inProcessRun is a run with what it takes.
type inProcessRun struct {
	direct.Run
	of        *inProcess
	execution execution
	contexts  contextSupply
	untimed   int
	failure   []byte
}

func (d *inProcess) newRun() *inProcessRun {
	r := &inProcessRun{of: d, execution: execution{server: d.server}}
	r.Release = r.release
	return r
}

func (d *inProcess) Run(function uint32, by uint8, payload, extensions []byte, deadlineNs uint64) *direct.Run {
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
	case f.identities != nil:
		e.err = f.refuses(nil)
	case len(payload) > d.server.config.frameBytesMax:
		e.err = refusedf(status.ResourceExhausted, "the request has %d bytes, the library accepts %d (limit frame_bytes_max); %s", len(payload), d.server.config.frameBytesMax, raiseFrameBytes)
	default:
		run.run(extensions, deadlineNs)
	}
	run.answer()
	return &run.Run
}

func (r *inProcessRun) run(extensions []byte, deadlineNs uint64) {
	e, f := &r.execution, r.execution.function
	ctx := context.Background()
	if f.needsContext {
		e.context = r.newContext(extensions, deadlineNs)
		ctx = e.context
	}
	if r.of.observed != nil {
		e.observeBegin(r.of.observed)
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
	e.finish()
	if r.of.observed != nil {
		e.observeEnd(status.FromError(e.err), len(e.result))
	}
}

func (r *inProcessRun) newContext(extensions []byte, deadlineNs uint64) *callContext {
	made := r.contexts.next()
	made.function, made.origin, made.deadlineNs = r.execution.function, &r.of.origin, deadlineNs
	if len(extensions) > 0 {
		made.theCall().parseMetadata(extensions)
	}
	return made
}

// answer fills in what the caller is given.
func (r *inProcessRun) answer() {
	e := &r.execution
	if e.context != nil {
		r.Extensions = e.context.takeReply()
	}
	if e.err == nil {
		r.Payload = e.result
		return
	}
	failure := status.FromError(e.err)
	r.failure = codec.AppendFailure(r.failure[:0], failure)
	r.Payload, r.Code, r.Outcome = r.failure, uint8(failure.Code), uint8(failure.Outcome)
}

func (r *inProcessRun) release() {
	e := &r.execution
	r.Extensions, r.Payload, r.Code, r.Outcome = nil, nil, 0, 0
	e.context, e.payload, e.result, e.err = nil, nil, nil, nil
	r.of.runs.Put(r)
}
