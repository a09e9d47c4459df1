package services

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/status"
)

// An endpoint is a function that plain NATS clients can call.
type endpoint struct {
	service      *Service
	function     *client.Function
	name         string
	subject      string
	subscription *nats.Subscription
	counts       counts
}

func (e *endpoint) subscribe() (err error) {
	e.subscription, err = e.service.config.Connection.QueueSubscribe(e.subject, queueGroup, e.receive)
	if err == nil {
		e.service.closes(e.subscription)
	}
	return err
}

// receive hands a request over. All requests of the endpoint come through the goroutine that runs
// it, so it waits for nothing. It answers at once if nobody is free.
func (e *endpoint) receive(m *nats.Msg) {
	if m.Reply == "" {
		// Nobody would hear what became of the call.
		e.service.config.Logger.Debug("a request without a reply subject is not run", "subject", m.Subject)
		return
	}
	if !mayAnswer(e.service.config.Prefix, m.Reply) {
		e.service.config.Logger.Debug("a request with a reply subject of gateways is not run", "subject", m.Subject, "reply", m.Reply)
		return
	}
	workers := e.service.config.Workers
	if !workers.take() {
		failure := status.Errorf(status.ResourceExhausted, "the gateway works on %d requests from NATS, which is its limit; try again, or raise it (workers)", workers.Most()).With(status.OutcomeNotExecuted)
		failure.Details = []status.Detail{{Type: limitDetail, Value: "gateway_workers"}}
		e.counts.refuse(failure)
		e.answerError(m, failure, nil)
		return
	}
	e.counts.begin()
	e.service.open.Add(1)
	go func() {
		defer e.service.open.Done()
		defer workers.give()
		started := time.Now()
		failure := e.serve(m)
		e.counts.end(time.Since(started), failure)
	}()
}

// limitDetail is the type of the detail that names a limit.
const limitDetail = "nearcall.limit"

// serve calls the function and answers. It returns the error of the call, or nil.
func (e *endpoint) serve(m *nats.Msg) *status.Error {
	asked, err := parseRequest(m)
	if err != nil {
		failure := status.FromError(err).With(status.OutcomeNotExecuted)
		e.answerError(m, failure, nil)
		return failure
	}
	ctx, cancel := context.WithCancelCause(e.service.calls)
	defer cancel(nil)
	if asked.name != "" {
		defer e.service.config.Calls.begin(asked.name, cancel)()
	}
	var metadata map[string][]string
	caller := e.service.config.Client.With(append(asked.options, client.ReplyMetadata(&metadata))...)
	result, err := caller.CallJSON(ctx, e.function.Name, asked.arguments, nil)
	if err != nil {
		failure := because(ctx, status.FromError(err))
		e.answerError(m, failure, metadata)
		return failure
	}
	return e.answerResult(m, result, metadata)
}

// because gives a call that the gateway has ended the reason for it. Its outcome stays.
func because(ctx context.Context, failure *status.Error) *status.Error {
	var reason *status.Error
	if failure.Code != status.Cancelled || ctx.Err() == nil {
		return failure
	}
	if reason = status.FromError(context.Cause(ctx)); reason == nil {
		return failure
	}
	return &status.Error{Code: reason.Code, Outcome: failure.Outcome, Message: reason.Message, Details: failure.Details, Cause: failure}
}
