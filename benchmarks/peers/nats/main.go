// NATS request-reply.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

type peer struct{}

func main() { program.Main(peer{}) }

func (peer) Configuration() string {
	return "loopback TCP (it has no Unix sockets); nats-server embedded in the process of the subscriber, which is connected to it in process; all callers share one connection"
}
func (peer) Documentation() string {
	return "https://docs.nats.io/using-nats/developer/sending/request_reply"
}
func (peer) Module() string { return "github.com/nats-io/nats.go" }

const (
	subject = "echo"
	timeout = 30 * time.Second
)

func (peer) Serve(string) (string, error) {
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		return "", err
	}
	broker.Start()
	if !broker.ReadyForConnections(timeout) {
		return "", errors.New("the embedded nats-server does not get ready")
	}
	connection, err := nats.Connect("", nats.InProcessServer(broker))
	if err != nil {
		return "", err
	}
	_, err = connection.Subscribe(subject, func(m *nats.Msg) {
		if err := m.Respond(m.Data); err != nil {
			fmt.Fprintln(os.Stderr, "nats:", err)
		}
	})
	if err != nil {
		return "", err
	}
	// The broker knows of the subscription once it has answered.
	return broker.ClientURL(), connection.Flush()
}

func (peer) Open(address string, _, callers int) ([]calling.Echo, error) {
	connection, err := nats.Connect(address)
	if err != nil {
		return nil, err
	}
	return program.Shared(callers, func(request []byte) ([]byte, error) {
		answer, err := connection.Request(subject, request, timeout)
		if err != nil {
			return nil, err
		}
		return answer.Data, nil
	}), nil
}
