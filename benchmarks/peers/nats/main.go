// NATS request-reply: the callers. Broker and subscriber are ../natsserver.
package main

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

func main() {
	program.Main(program.Peer{
		Connections: program.OneForAll,
		Configuration: "loopback TCP (it has no Unix sockets); nats-server embedded in the process of the subscriber, which is connected to it in process" +
			" and answers one request at a time; 256 MiB may be pending for a client and a subscription",
		Documentation: "https://docs.nats.io/using-nats/developer/sending/request_reply",
		Modules:       []string{"github.com/nats-io/nats.go"},
		Open:          program.Shared(open),
	})
}

const (
	subject = "echo" // as in ../natsserver
	timeout = 30 * time.Second
)

func open(address string) (calling.Echo, error) {
	connection, err := nats.Connect(address)
	return func(request []byte) ([]byte, error) {
		answer, err := connection.Request(subject, request, timeout)
		if err != nil {
			return nil, err
		}
		return answer.Data, nil
	}, err
}
