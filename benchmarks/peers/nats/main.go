// NATS request-reply: the callers. Broker and subscriber are ../natsserver. As a floor for calls
// through gateways it also serves: as a responder beside the broker, in a process of its own.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
	"github.com/nearcall/nearcall/benchmarks/process"
)

func main() {
	program.Main(program.Peer{
		Connections: program.OneForAll,
		Configuration: "loopback TCP (it has no Unix sockets); nats-server embedded in the process of the subscriber, which is connected to it in process" +
			" and answers one request at a time; 256 MiB may be pending for a client and a subscription",
		Documentation: "https://docs.nats.io/using-nats/developer/sending/request_reply",
		Modules:       []string{"github.com/nats-io/nats.go"},
		Serve:         serveApart,
		Open:          program.Shared(open),
	})
}

const (
	subject = "echo" // as in ../natsserver
	// Who has a broker in another process answers here.
	subjectApart, prefixApart = "echo-apart", "apart:"
	timeout                   = 30 * time.Second
)

func open(address string) (calling.Echo, error) {
	url, apart := strings.CutPrefix(address, prefixApart)
	to := subject
	if apart {
		to = subjectApart
	}
	connection, err := nats.Connect(url)
	return func(request []byte) ([]byte, error) {
		answer, err := connection.Request(to, request, timeout)
		if err != nil {
			return nil, err
		}
		return answer.Data, nil
	}, err
}

// serveApart starts ../natsserver for its broker, and answers through it.
func serveApart(path string) (program.Server, error) {
	self, err := os.Executable()
	if err != nil {
		return program.Server{}, err
	}
	broker, err := process.Start(filepath.Join(filepath.Dir(self), "natsserver"), "serve", "unix:"+path)
	if err != nil {
		return program.Server{}, err
	}
	stop := func() error { broker.Stop(); return nil }
	if err := answer(broker.Said); err != nil {
		return program.Server{}, errors.Join(err, stop())
	}
	run := func() error {
		<-broker.Ended()
		return broker.End()
	}
	return program.Server{Address: prefixApart + broker.Said, Run: run, Close: stop}, nil
}

// answer returns when the broker knows who does.
func answer(url string) error {
	connection, err := nats.Connect(url)
	if err != nil {
		return err
	}
	_, err = connection.Subscribe(subjectApart, func(m *nats.Msg) {
		if err := m.Respond(m.Data); err != nil {
			fmt.Fprintln(os.Stderr, "nats:", err)
		}
	})
	return errors.Join(err, connection.Flush())
}
