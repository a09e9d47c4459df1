package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/load"
	"github.com/nearcall/nearcall/internal/address"
)

// The values of --transport.
const (
	transportMemory = "shm"
	transportSocket = "socket"
)

// asClientTells is what client.Transport calls them.
var asClientTells = map[string]string{transportMemory: "shared memory", transportSocket: "unix socket"}

// A benchSetting is one way to call, and what was measured of it in all rounds.
type benchSetting struct {
	transport    string // one of the values of --transport; "" as the address says
	payloadBytes *int   // nil for none
	callers      int
	send         sender

	load.Result
	callerCPU   time.Duration
	serverCPU   *time.Duration  // nil where it cannot be read
	connections map[string]int  // of all turns, by how their calls went
	p50Rounds   []time.Duration // of rounds with calls that succeeded
	perSRounds  []float64
	failure     error // why it could not be measured; nothing else counts then
}

// A sender makes one call and returns the reply in dst, which may grow.
type sender func(ctx context.Context, c *client.Client, dst []byte) ([]byte, error)

// settings makes every combination of the lists. What cannot be called by any of them
// is an error.
func (b *benching) settings(ctx context.Context, address, function string, texts []string) ([]*benchSetting, error) {
	if err := b.checkTransports(address); err != nil {
		return nil, err
	}
	encode, err := b.encoder(ctx, address, function, texts)
	if err != nil {
		return nil, err
	}
	payloads, transports := []*int{nil}, b.transports
	if len(b.payloadBytes) > 0 {
		payloads = nil
	}
	for i := range b.payloadBytes {
		payloads = append(payloads, &b.payloadBytes[i])
	}
	if len(transports) == 0 {
		transports = []string{""}
	}
	var settings []*benchSetting
	for _, payload := range payloads {
		send, err := encode(payload)
		if err != nil {
			return nil, err
		}
		for _, callers := range b.callers {
			for _, transport := range transports {
				settings = append(settings, &benchSetting{transport: transport, payloadBytes: payload, callers: callers, send: send})
			}
		}
	}
	return settings, nil
}

// checkTransports says what an address cannot do before anything is measured.
func (b *benching) checkTransports(text string) error {
	list, err := address.ParseList(text, true)
	for _, transport := range b.transports {
		switch {
		case err != nil: // the client says it better
		case list.Count() > 1:
			return usageError{fmt.Errorf("--transport %s: the address has several endpoints; measure one of them", transport)}
		case list.Groups[0][0].Network != "unix":
			return usageError{fmt.Errorf("--transport %s: only a unix: address has the choice", transport)}
		case transport == transportMemory && list.Groups[0][0].SharedMemoryOff:
			return usageError{fmt.Errorf("--transport %s: the address says shm=off", transport)}
		}
	}
	return nil
}

// encoder returns what makes the sender of a payload. The request is encoded once for
// all calls.
func (b *benching) encoder(ctx context.Context, address, function string, texts []string) (func(payload *int) (sender, error), error) {
	calling := &calling{program: b.program}
	if b.raw {
		return func(payload *int) (sender, error) {
			request, err := calling.rawArgument(withPayload(texts, payload))
			return func(ctx context.Context, c *client.Client, dst []byte) ([]byte, error) {
				return c.CallRaw(ctx, function, request, dst)
			}, err
		}, nil
	}
	c, err := b.client(address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	by, description, err := describe(ctx, c, function)
	if err != nil {
		return nil, err
	}
	// Standard input is read once for all.
	texts, err = calling.readDashes(texts, description)
	return func(payload *int) (sender, error) {
		request, err := calling.encodeTexts(description, withPayload(texts, payload))
		return func(ctx context.Context, c *client.Client, dst []byte) ([]byte, error) {
			return c.CallEncoded(ctx, by, request, dst)
		}, err
	}, err
}

// withPayload adds the last argument, where there is one.
func withPayload(texts []string, payload *int) []string {
	if payload == nil {
		return texts
	}
	return append(texts[:len(texts):len(texts)], strings.Repeat("x", *payload))
}

// connect makes the clients; they connect with their first calls.
func (b *benching) connect(address string, s *benchSetting) ([]*client.Client, error) {
	var options []client.Option
	if s.transport == transportSocket {
		options = append(options, client.WithoutSharedMemory())
	}
	clients := make([]*client.Client, 0, s.callers)
	for range s.callers {
		c, err := b.client(address, options...)
		if err != nil {
			return clients, err
		}
		clients = append(clients, c)
		if b.shared {
			break
		}
	}
	return clients, nil
}

// calls makes what the callers do.
func (s *benchSetting) calls(clients []*client.Client) []load.Call {
	calls := make([]load.Call, s.callers)
	for i := range calls {
		c, reply := clients[i%len(clients)], []byte(nil)
		calls[i] = func(ctx context.Context) error {
			var err error
			reply, err = s.send(ctx, c, reply[:0])
			return err
		}
	}
	return calls
}

// add adds what was measured in one turn.
func (s *benchSetting) add(r *load.Result, before, after cpuUse, connections map[string]int) {
	if len(s.perSRounds) == 0 && before.serverKnown && after.serverKnown {
		s.serverCPU = new(time.Duration)
	}
	switch {
	case s.serverCPU == nil:
	case before.serverKnown && after.serverKnown:
		*s.serverCPU += after.server - before.server
	default:
		s.serverCPU = nil // of a part of the calls it says nothing
	}
	s.callerCPU += after.caller - before.caller
	if s.connections == nil {
		s.connections = map[string]int{}
	}
	for transport, count := range connections {
		s.connections[transport] += count
	}
	if r.Latency.Count() > 0 {
		s.p50Rounds = append(s.p50Rounds, r.Latency.Percentile(0.5))
	}
	s.perSRounds = append(s.perSRounds, perSecond(r))
	s.Result.Add(r)
}

func perSecond(r *load.Result) float64 { return float64(r.Latency.Count()) / r.Elapsed.Seconds() }

// wrongTransport says that calls went another way than was asked for.
func (s *benchSetting) wrongTransport() error {
	asked := asClientTells[s.transport]
	for transport := range s.connections {
		if asked != "" && transport != asked {
			return fmt.Errorf("calls went by %s; a longer --warm-up or fewer callers may help", transportsText(s.connections))
		}
	}
	return nil
}
