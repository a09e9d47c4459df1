package main

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/client"
)

// callsUntilMemory is more than any server wants before it gives shared memory.
const callsUntilMemory = 1024

// openMemory returns a call through shared memory. Answers are compared in full until
// there is memory and once through it, then by their length.
func openMemory(address string, payloadBytes int) (mode, error) {
	c, err := client.New(address)
	if err != nil {
		return mode{}, err
	}
	payload := calling.Payload(payloadBytes)
	answer := make([]byte, 0, payloadBytes)
	call := func() (uint64, bool, error) {
		begin := time.Since(zero)
		var err error
		answer, err = c.CallRaw(context.Background(), "echo", payload, answer[:0])
		ns := uint64(time.Since(zero) - begin)
		if err == nil && len(answer) != len(payload) {
			err = calling.ErrDiffers
		}
		return ns, true, err
	}
	for inMemory, n := false, 0; n < callsUntilMemory; n++ {
		if _, _, err := call(); err != nil {
			return mode{}, err
		}
		if !bytes.Equal(answer, payload) {
			return mode{}, calling.ErrDiffers
		}
		if inMemory {
			return mode{call: call, transport: protocol.SharedMemory}, nil
		}
		inMemory = c.Transport() == "shared memory"
	}
	return mode{}, errors.New(address + " gives no shared memory")
}
