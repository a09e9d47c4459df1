package main

import (
	"context"
	"unsafe"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/client"
)

const floatBytes = 8

// openFloats returns callers that share a client and send lists of float64, whose memory is
// the payload's. Every answer is stored where the one before it was.
func openFloats(address string, callers int) (echoes, error) {
	all, err := openClients(address, 1, callers)
	if err != nil {
		return echoes{}, err
	}
	reusing := all.clients[0].With(client.ReuseResult())
	for i := range all.calls {
		all.calls[i] = floatsBy(reusing)
	}
	return all, nil
}

func floatsBy(c *client.Client) calling.Echo {
	var answer []float64
	return func(request []byte) ([]byte, error) {
		numbers := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(request))), len(request)/floatBytes)
		if err := c.Call(context.Background(), "echo_numbers", &answer, numbers); err != nil {
			return nil, err
		}
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(answer))), len(answer)*floatBytes), nil
	}
}
