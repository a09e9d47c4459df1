// The server of the NATS peer: a broker, and the subscriber that echoes.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

func main() {
	program.Main(program.Peer{
		Modules: []string{"github.com/nats-io/nats-server/v2"},
		Serve:   serve,
	})
}

const (
	subject      = "echo" // as in ../nats
	readyTimeout = 30 * time.Second
	// By default 64 MiB: as much as 64 callers may send at once, their headers aside.
	pendingBytesMax = 256 << 20
	anyCount        = -1
)

func serve(string) (program.Server, error) {
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, MaxPending: pendingBytesMax})
	if err != nil {
		return program.Server{}, err
	}
	broker.Start()
	if !broker.ReadyForConnections(readyTimeout) {
		return program.Server{}, errors.New("the embedded nats-server does not get ready")
	}
	run := func() error {
		broker.WaitForShutdown()
		return errors.New("the embedded nats-server has shut down")
	}
	return program.Server{Address: broker.ClientURL(), Run: run}, subscribe(broker)
}

// subscribe returns when the broker knows of the subscription.
func subscribe(broker *server.Server) error {
	connection, err := nats.Connect("", nats.InProcessServer(broker))
	if err != nil {
		return err
	}
	subscription, err := connection.Subscribe(subject, func(m *nats.Msg) {
		if err := m.Respond(m.Data); err != nil {
			fmt.Fprintln(os.Stderr, "nats:", err)
		}
	})
	if err != nil {
		return err
	}
	if err := subscription.SetPendingLimits(anyCount, pendingBytesMax); err != nil {
		return err
	}
	return connection.Flush()
}
