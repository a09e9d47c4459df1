package main

import (
	"context"
	"errors"
	"time"

	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/client"
)

// callsUntilMemory is more than any server wants before it gives shared memory.
const callsUntilMemory = 1024

// openMemory returns a call through shared memory.
func openMemory(address string, payloadBytes int) (machine, error) {
	c, err := client.New(address)
	if err != nil {
		return machine{}, err
	}
	payload, answer := make([]byte, payloadBytes), make([]byte, 0, payloadBytes)
	call := func() (uint64, bool, error) {
		begin := time.Since(zero)
		var err error
		answer, err = c.CallRaw(context.Background(), "echo", payload, answer[:0])
		ns := uint64(time.Since(zero) - begin)
		if err == nil && len(answer) != len(payload) {
			err = errors.New("the echo differs")
		}
		return ns, true, err
	}
	for range callsUntilMemory {
		if _, _, err := call(); err != nil {
			return machine{}, err
		}
		if c.Transport() == "shared memory" {
			return machine{call: call, transport: protocol.SharedMemory}, nil
		}
	}
	return machine{}, errors.New(address + " gives no shared memory")
}
