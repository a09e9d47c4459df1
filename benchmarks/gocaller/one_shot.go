package main

import (
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/client"
)

// What calls may take. A deadline is not meant to pass: it is there for what it
// costs, as in the benchmarks of Go's package net.
const (
	noDeadline   = client.NoTimeout
	withDeadline = time.Minute
)

// callsUntilMemoryMax is more than a server wants before it gives shared memory.
const callsUntilMemoryMax = 256

// openEach returns callers with a client each, that is a connection each.
func openEach(address string, payload []byte, callers int, timeout time.Duration) (subjects, error) {
	all := subjects{calls: make([]calling.Call, callers)}
	for i := range all.calls {
		c, err := client.New(address, client.WithTimeout(timeout))
		if err != nil {
			return subjects{}, err
		}
		if err := reachMemory(c, payload, !strings.Contains(address, "shm=off")); err != nil {
			return subjects{}, err
		}
		all.calls[i], all.clients = echoCall(c, payload), append(all.clients, c)
	}
	return all, nil
}

// reachMemory calls until the server has given shared memory, where it may.
func reachMemory(c *client.Client, payload []byte, may bool) error {
	if err := compareEcho(c, payload); err != nil {
		return err
	}
	for n := 0; may && n < callsUntilMemoryMax && c.Transport() == "unix socket"; n++ {
		if err := compareEcho(c, payload); err != nil {
			return err
		}
	}
	return nil
}

// openOneShot returns callers that connect, call once and close: each of these times.
func openOneShot(address string, payload []byte, callers int, timeout time.Duration) (subjects, error) {
	calls := make([]calling.Call, callers)
	for i := range calls {
		calls[i] = func() error {
			c, err := client.New(address, client.WithTimeout(timeout))
			if err != nil {
				return err
			}
			defer c.Close()
			return echoCall(c, payload)()
		}
	}
	return subjects{calls: calls}, calls[0]()
}
