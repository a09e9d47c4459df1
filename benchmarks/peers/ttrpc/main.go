// ttrpc, containerd's RPC.
package main

import (
	"context"
	"net"

	"github.com/containerd/ttrpc"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
	"github.com/nearcall/nearcall/benchmarks/peers/ttrpc/echo"
)

func main() {
	program.Main(program.Peer{
		Connections:   program.OneForAll,
		Configuration: "Unix socket, protobuf, handshake UnixSocketRequireSameUser as in its example",
		Documentation: "https://github.com/containerd/ttrpc/tree/main/example",
		Modules:       []string{"github.com/containerd/ttrpc"},
		Serve:         program.OnSocket(serve),
		Open:          program.AtPath(program.Shared(open)),
	})
}

type service struct{}

func (service) Echo(_ context.Context, request *echo.Bytes) (*echo.Bytes, error) {
	return request, nil
}

func serve(listener net.Listener) error {
	server, err := ttrpc.NewServer(ttrpc.WithServerHandshaker(ttrpc.UnixSocketRequireSameUser()))
	if err != nil {
		return err
	}
	echo.RegisterEchoService(server, service{})
	return server.Serve(context.Background(), listener)
}

func open(path string) (calling.Echo, error) {
	connection, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	client := echo.NewEchoClient(ttrpc.NewClient(connection))
	return func(request []byte) ([]byte, error) {
		answer, err := client.Echo(context.Background(), &echo.Bytes{Data: request})
		return answer.GetData(), err
	}, nil
}
