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

// A Direct calls the functions of a server within this process, in the goroutine of the
// caller. It is made for package embed; Go programs simply call their functions. Its
// methods may be called from any number of goroutines.
type Direct struct {
	server *Server
	table  *functionTable
	peer   Peer
	runs   sync.Pool // of *DirectRun

	// started and startedNs are the same moment, so that a deadline can be converted
	// without reading a clock.
	started   time.Time
	startedNs uint64
}

// Direct returns the server's functions for calls within this process. No more
// functions can be registered after that.
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

// Serve serves other processes, as Server.Serve does. The program it runs in is not
// written in Go, and its log should not begin with lines of Nearcall's, so start and
// stop are logged at level debug.
func (d *Direct) Serve(ctx context.Context, listener net.Listener) error {
	return d.server.serve(ctx, listener, slog.LevelDebug)
}

// Find returns the number of the function with a name, or 0 if there is none.
func (d *Direct) Find(name string) uint32 {
	if f := d.table.byName[name]; f != nil {
		return f.id
	}
	return 0
}

// Overran notes that a call of the function took so long that its caller should have
// been able to leave it. The next calls of it are not run directly.
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

// Run calls a function. deadlineNs is a moment of CLOCK_MONOTONIC, or 0 for no
// deadline. payload must not change until Release; extensions are those of a request.
//
// Run does nothing and returns nil for a function that must not run in its caller's
// goroutine, because its caller must be able to leave it at the deadline: one that has
// proved to be slow, or whose registration limits how it runs.
func (d *Direct) Run(function uint32, by uint8, payload, extensions []byte, deadlineNs uint64) *DirectRun {
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
		run.run(extensions, deadlineNs)
	}
	return run
}

func (r *DirectRun) run(extensions []byte, deadlineNs uint64) {
	e, f := &r.execution, r.execution.function
	ctx := context.Background()
	if f.needsContext {
		e.context = r.newContext(extensions, deadlineNs)
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

func (r *DirectRun) newContext(extensions []byte, deadlineNs uint64) *callContext {
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

// Extensions returns those of the answer: the metadata that the function has added.
func (r *DirectRun) Extensions() []byte { return r.execution.context.takeReply() }

// Reply returns the result. If the call has failed, it returns the payload of the error
// with its code and its outcome.
func (r *DirectRun) Reply() (payload []byte, code, outcome uint8) {
	e := &r.execution
	if e.err == nil {
		return e.result, 0, 0
	}
	failure := status.FromError(e.err)
	r.failure = codec.AppendFailure(r.failure[:0], failure)
	return r.failure, uint8(failure.Code), uint8(failure.Outcome)
}

// Release ends the use of the run and of its bytes.
func (r *DirectRun) Release() {
	e := &r.execution
	e.context, e.payload, e.result, e.err = nil, nil, nil, nil
	r.direct.runs.Put(r)
}
