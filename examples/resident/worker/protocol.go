package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// A workRequest is a line on standard input. What a request says of its inputs and
// their digests is for workers that keep results; this one keeps none.
type workRequest struct {
	Arguments  []string `json:"arguments"`
	Inputs     []input  `json:"inputs"`
	RequestID  int      `json:"requestId"` // 0: no other request is sent meanwhile
	Cancel     bool     `json:"cancel"`
	Verbosity  int      `json:"verbosity"`
	SandboxDir string   `json:"sandboxDir"` // where paths are relative to
}

type input struct {
	Path   string `json:"path"`
	Digest string `json:"digest"`
}

// A workResponse is a line on standard output, one for each request that is no
// cancellation.
type workResponse struct {
	ExitCode     int    `json:"exitCode"`
	Output       string `json:"output"`
	RequestID    int    `json:"requestId"`
	WasCancelled bool   `json:"wasCancelled"`
}

// A worker runs requests, any number at a time.
type worker struct {
	command []string
	running sync.WaitGroup

	mu      sync.Mutex // guards what follows, and the order of responses
	cancels map[int]context.CancelFunc
	out     *json.Encoder
}

func newWorker(command []string, out io.Writer) *worker {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return &worker{command: command, cancels: map[int]context.CancelFunc{}, out: encoder}
}

// serve reads requests until the input ends, and returns when all are answered. When
// the context ends, what runs is told to end.
func (w *worker) serve(ctx context.Context, in io.Reader) error {
	defer w.running.Wait()
	requests := make(chan workRequest)
	failed := make(chan error, 1)
	go func() { failed <- read(ctx, in, requests) }()
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

func read(ctx context.Context, in io.Reader, requests chan<- workRequest) error {
	decoder := json.NewDecoder(in)
	for {
		var request workRequest
		if err := decoder.Decode(&request); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("the request cannot be read: %w", err)
		}
		select {
		case requests <- request:
		case <-ctx.Done():
			return nil
		}
	}
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
	process := prepare(ctx, slices.Concat(w.command, request.Arguments))
	process.Dir = request.SandboxDir
	var output bytes.Buffer
	process.Stdout, process.Stderr = &output, &output
	code, err := exitCode(process.Run())
	if err != nil {
		fmt.Fprintf(&output, "worker: %v\n", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	response := workResponse{ExitCode: code, Output: output.String(), RequestID: request.RequestID, WasCancelled: ctx.Err() != nil}
	w.cancels[request.RequestID]()
	delete(w.cancels, request.RequestID)
	w.respond(response)
}

// respond is called with the lock held. Where nobody reads, the input ends too.
func (w *worker) respond(response workResponse) { _ = w.out.Encode(response) }
