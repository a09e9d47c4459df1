package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// A worker runs requests, any number at a time.
type worker struct {
	command  []string
	protocol protocol
	running  sync.WaitGroup

	mu      sync.Mutex // guards what follows, and the order of responses
	cancels map[int32]context.CancelFunc
	out     io.Writer
}

func newWorker(command []string, out io.Writer) *worker {
	return &worker{command: command, cancels: map[int32]context.CancelFunc{}, out: out}
}

// serve reads requests until the input ends, and returns when all are answered. When
// the context ends, what runs is told to end.
func (w *worker) serve(ctx context.Context, in io.Reader) error {
	defer w.running.Wait()
	requests := make(chan workRequest)
	failed := make(chan error, 1)
	go func() { failed <- w.read(ctx, bufio.NewReader(in), requests) }()
	for {
		select {
		case request := <-requests:
			w.take(ctx, request)
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *worker) read(ctx context.Context, in *bufio.Reader, requests chan<- workRequest) error {
	spoken, err := protocolOf(in)
	w.protocol = spoken // before the first request, and so before all responses
	for err == nil {
		var request workRequest
		if request, err = spoken.receive(in); err != nil {
			break
		}
		select {
		case requests <- request:
		case <-ctx.Done():
			return nil
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (w *worker) take(ctx context.Context, request workRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	cancel, known := w.cancels[request.RequestID]
	switch {
	case request.Cancel && known:
		cancel()
	case request.Cancel: // It was answered already, and that was the answer.
	case known:
		w.respond(workResponse{ExitCode: exitUsage, RequestID: request.RequestID,
			Output: fmt.Sprintf("worker: a request with the id %d runs already\n", request.RequestID)})
	default:
		own, cancel := context.WithCancel(ctx)
		w.cancels[request.RequestID] = cancel
		w.running.Go(func() { w.run(own, request) })
	}
}

func (w *worker) run(ctx context.Context, request workRequest) {
	process := prepare(ctx, slices.Concat(w.command, unescapeAll(request.Arguments)))
	process.Dir = request.SandboxDir
	var output bytes.Buffer
	process.Stdout, process.Stderr = &output, &output
	code, err := exitCode(process.Run())
	if err != nil {
		fmt.Fprintf(&output, "worker: %v\n", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	response := workResponse{ExitCode: int32(code), Output: output.String(), RequestID: request.RequestID, WasCancelled: ctx.Err() != nil}
	w.cancels[request.RequestID]()
	delete(w.cancels, request.RequestID)
	w.respond(response)
}

// respond is called with the lock held. Where nobody reads, the input ends too.
func (w *worker) respond(response workResponse) { _ = w.protocol.send(w.out, response) }
