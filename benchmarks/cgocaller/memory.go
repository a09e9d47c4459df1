package main

import (
	"context"
	"errors"
	"time"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/client"
)

// openMemory returns a call through shared memory. The first answer is compared in full,
// and so is the first through memory; the others by their length.
func openMemory(address string, payloadBytes int) (mode, error) {
	c, err := client.New(address)
	if err != nil {
		return mode{}, err
	}
	payload := calling.Payload(payloadBytes)
	answer := make([]byte, 0, payloadBytes)
	echoes := []calling.Echo{func(request []byte) ([]byte, error) {
		var err error
		answer, err = c.CallRaw(context.Background(), "echo", request, answer[:0])
		return answer, err
	}}
	calls, err := calling.Echoing(echoes, payload)
	if err != nil {
		return mode{}, err
	}
	if err := calling.UntilMemory(calls[0], c.Transport); err != nil {
		return mode{}, err
	}
	if protocol.TransportOf(c.Transport()) != protocol.SharedMemory {
		return mode{}, errors.New(address + " gives no shared memory")
	}
	if calls, err = calling.Echoing(echoes, payload); err != nil {
		return mode{}, err
	}
	return mode{transport: protocol.SharedMemory, call: func() (uint64, bool, error) {
		begin := time.Since(zero)
		err := calls[0]()
		return uint64(time.Since(zero) - begin), true, err
	}}, nil
}
