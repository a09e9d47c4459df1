// Package protobuf is what the peers that send protobuf have in common: a service with one method, whose request and
// answer are a message with a field of bytes. Their compilers would make of it what each of them has in a few lines.
package protobuf

import (
	"context"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/nearcall/nearcall/benchmarks/calling"
)

// The service, its method, and where both are called.
const (
	Service = "nearcall.peers.Echo"
	Method  = "Echo"
	Path    = "/" + Service + "/" + Method
)

// Bytes is the message.
type Bytes = wrapperspb.BytesValue

// Answer is the method.
func Answer(_ context.Context, request *Bytes) (*Bytes, error) { return request, nil }

// Echo is a caller that invokes the method so.
func Echo(invoke func(ctx context.Context, request, answer *Bytes) error) calling.Echo {
	return func(request []byte) ([]byte, error) {
		answer := new(Bytes)
		err := invoke(context.Background(), &Bytes{Value: request}, answer)
		return answer.GetValue(), err
	}
}
