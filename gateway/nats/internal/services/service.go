// Package services offers the functions of a server to plain NATS clients: each function is an endpoint
// of a NATS service, which takes and gives JSON. spec/services.md has the subjects, the headers and
// the errors.
//
// The documents about services are those of NATS micro, so the command nats shows them. The
// subscriptions are this package's own: micro counts an endpoint's requests and times when its
// handler returns, and here the handler only hands the request over.
package services

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/status"
)

// queueGroup is that of micro, so that instances of other programs share the requests as well.
const queueGroup = micro.DefaultQueueGroup

// A Config says which functions are offered, and how.
type Config struct {
	Connection *nats.Conn
	// Prefix is what all subjects of a cluster begin with, such as "nearcall".
	Prefix string
	// Name is that of the service, and Version its semantic version.
	Name, Version string
	// Metadata are told about the service.
	Metadata map[string]string
	// Client calls the server, and Functions are those that are offered.
	Client    *client.Client
	Functions []*client.Function
	// Workers bounds how many requests are worked on at the same time, and Calls finds those that
	// are to be cancelled. All services of a gateway share them.
	Workers *Workers
	Calls   *Calls
	Logger  *slog.Logger
}

// CheckName reports what is wrong with the name of a service.
func CheckName(name string) error {
	if !isWord(name) {
		return fmt.Errorf("the name %q of an exported server is not a name of NATS: write letters, digits, - and _", name)
	}
	return nil
}

// isWord reports whether a text has letters, digits, - and _ only, and at least one of them.
func isWord(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return !isWordRune(r) }) < 0
}

func isWordRune(r rune) bool {
	return r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}

// CheckVersion reports what is wrong with the version of a service.
func CheckVersion(version string) error {
	// It is compiled here because every start of a program with this package would take longer.
	form := regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	if !form.MatchString(version) {
		return fmt.Errorf("the version %q of an exported server is not a semantic version: write one such as 1.4.0", version)
	}
	return nil
}

// A Service is one instance of a NATS service. It ends with Stop.
type Service struct {
	config    Config
	id        string
	started   time.Time
	endpoints []*endpoint
	control   []*nats.Subscription

	// calls is what the contexts of all requests end with.
	calls   context.Context
	abandon context.CancelCauseFunc
	// open counts subscriptions that still deliver, and requests that are not answered.
	open sync.WaitGroup
}

// Start subscribes to the subjects of all functions. Functions whose names cannot be part of a
// subject are left out, which the log says.
func Start(config Config) (*Service, error) {
	if err := errors.Join(CheckName(config.Name), CheckVersion(config.Version)); err != nil {
		return nil, err
	}
	s := &Service{config: config, id: rand.Text(), started: time.Now().UTC()}
	s.calls, s.abandon = context.WithCancelCause(context.Background())
	if err := s.subscribe(); err != nil {
		s.Withdraw()
		s.abandon(nil)
		return nil, fmt.Errorf("the functions of %s cannot be offered to NATS: %w", config.Name, err)
	}
	return s, nil
}

func (s *Service) subscribe() error {
	names := newNames(s.config.Prefix, s.config.Name)
	for _, f := range s.config.Functions {
		subject, ok := names.subject(f.Name)
		if !ok {
			s.config.Logger.Warn("a function cannot be called by plain NATS clients, because its name is no part of a subject", "server", s.config.Name, "function", f.Name)
			continue
		}
		e := &endpoint{service: s, function: f, name: names.endpoint(f.Name), subject: subject}
		if err := e.subscribe(); err != nil {
			return err
		}
		s.endpoints = append(s.endpoints, e)
	}
	return s.subscribeControl()
}

// closes counts a subscription until it delivers nothing more.
func (s *Service) closes(subscription *nats.Subscription) {
	s.open.Add(1)
	subscription.SetClosedHandler(func(string) { s.open.Done() })
}

// Withdraw takes no more requests, so that other instances get them. Those that came are still
// worked on.
func (s *Service) Withdraw() {
	for _, e := range s.endpoints {
		s.end(e.subscription)
	}
	for _, subscription := range s.control {
		s.end(subscription)
	}
}

// end ends a subscription, and what has been delivered is worked on. Without an engine nothing is, because
// nobody would get the answers, and waiting for the engine would take long. Both fail if the
// connection was closed, which ends the subscription as well.
func (s *Service) end(subscription *nats.Subscription) {
	if !s.config.Connection.IsConnected() {
		_ = subscription.Unsubscribe()
		return
	}
	_ = subscription.Drain()
}

// Stop withdraws the service and waits until the requests that came are answered. When ctx ends, it
// gives up those that are left: their callers are told.
func (s *Service) Stop(ctx context.Context) {
	s.Withdraw()
	done := make(chan struct{})
	go func() {
		s.open.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.abandon(errStopped)
		select {
		case <-done:
		case <-time.After(abandonTimeout):
			s.config.Logger.Warn("requests from NATS did not end with the gateway", "server", s.config.Name)
		}
	}
	s.abandon(errStopped)
}

// abandonTimeout is how long the answers of calls that are given up may take.
const abandonTimeout = time.Second

var errStopped = status.Errorf(status.Unavailable, "the gateway is stopping")

// signature writes a function's parameters and results on one line, as
// "divmod(a int64, b int64) (int64, int64)".
func signature(f *client.Function) string {
	params := make([]string, len(f.Params))
	for i, param := range f.Params {
		dots := ""
		if f.Variadic && i == len(f.Params)-1 {
			dots = "..."
		}
		params[i] = param.Name + dots + " " + param.Type
	}
	text := f.Name + "(" + strings.Join(params, ", ") + ")"
	switch len(f.Results) {
	case 0:
		return text
	case 1:
		return text + " " + f.Results[0]
	}
	return text + " (" + strings.Join(f.Results, ", ") + ")"
}
