package calling

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// ErrDiffers is an echo that is not what was sent.
var ErrDiffers = errors.New("the echo differs")

// An Echo sends a request and returns the answer, which may be overwritten by the next
// call of the same Echo. Each caller has its own.
type Echo func(request []byte) (answer []byte, err error)

// Echoing returns callers that send the payload. Each has made one call whose answer was
// compared in full; from then on the length is.
func Echoing(echoes []Echo, payload []byte) ([]Call, error) {
	calls := make([]Call, len(echoes))
	for i, echo := range echoes {
		answer, err := echo(payload)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(answer, payload) {
			return nil, ErrDiffers
		}
		calls[i] = func() error {
			answer, err := echo(payload)
			if err == nil && len(answer) != len(payload) {
				err = ErrDiffers
			}
			return err
		}
	}
	return calls, nil
}

// callsUntilMemoryMax is more than a server wants before it gives shared memory.
const callsUntilMemoryMax = 1024

// UntilMemory calls until the server has given shared memory, as a client tells its
// transport. To have been given none is no error: reports tell what calls went by.
func UntilMemory(call Call, transport func() string) error {
	for range callsUntilMemoryMax {
		if protocol.TransportOf(transport()) != protocol.Socket {
			return nil
		}
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// verifiedCalls are as many as each caller makes to be verified.
const verifiedCalls = 10

// Verify lets all call at the same time, each with a payload of its own, and compares
// every answer in full.
func Verify(echoes []Echo, size int) error {
	failures := make([]error, len(echoes))
	var callers sync.WaitGroup
	for i, echo := range echoes {
		callers.Go(func() { failures[i] = verifyCaller(echo, i, PayloadOf(i, size)) })
	}
	callers.Wait()
	return errors.Join(failures...)
}

func verifyCaller(echo Echo, caller int, payload []byte) error {
	for range verifiedCalls {
		answer, err := echo(payload)
		if err == nil && !bytes.Equal(answer, payload) {
			err = ErrDiffers
		}
		if err != nil {
			return fmt.Errorf("caller %d: %w", caller, err)
		}
	}
	return nil
}
