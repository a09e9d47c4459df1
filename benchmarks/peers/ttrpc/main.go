// ttrpc, containerd's RPC.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/containerd/ttrpc"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
	"github.com/nearcall/nearcall/benchmarks/peers/ttrpc/echo"
)

type peer struct{}

func main() { program.Main(peer{}) }

func (peer) Configuration() string {
	return "Unix socket, protobuf, handshake UnixSocketRequireSameUser as in its example; all callers share one client"
}
func (peer) Documentation() string { return "https://github.com/containerd/ttrpc/tree/main/example" }
func (peer) Module() string        { return "github.com/containerd/ttrpc" }

type service struct{}

func (service) Echo(_ context.Context, request *echo.Bytes) (*echo.Bytes, error) {
	return request, nil
}

func (peer) Serve(path string) (string, error) {
	server, err := ttrpc.NewServer(ttrpc.WithServerHandshaker(ttrpc.UnixSocketRequireSameUser()))
	if err != nil {
		return "", err
	}
	echo.RegisterEchoService(server, service{})
	listener, err := net.Listen("unix", path)
	if err != nil {
		return "", err
	}
	go func() { fmt.Fprintln(os.Stderr, "ttrpc:", server.Serve(context.Background(), listener)) }()
	return "unix:" + path, nil
}

func (peer) Open(address string, _, callers int) ([]calling.Echo, error) {
	path, err := calling.Socket(address)
	if err != nil {
		return nil, err
	}
	connection, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	client := echo.NewEchoClient(ttrpc.NewClient(connection))
	return program.Shared(callers, func(request []byte) ([]byte, error) {
		answer, err := client.Echo(context.Background(), &echo.Bytes{Data: request})
		return answer.GetData(), err
	}), nil
}
