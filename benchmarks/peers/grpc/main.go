// gRPC over a Unix socket.
package main

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/grpc/echo"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

func main() {
	program.Main(program.Peer{
		Connections:   program.OneForAll,
		Configuration: "Unix socket, protobuf, insecure credentials, everything else as it is by default; callers share a channel and its stub",
		Documentation: "https://grpc.io/docs/guides/performance/",
		Modules:       []string{"google.golang.org/grpc"},
		Serve:         program.OnSocket(serve),
		Open:          program.Shared(open),
	})
}

type service struct{ echo.UnimplementedEchoServer }

func (service) Echo(_ context.Context, request *echo.Bytes) (*echo.Bytes, error) {
	return request, nil
}

func serve(listener net.Listener) error {
	server := grpc.NewServer()
	echo.RegisterEchoServer(server, service{})
	return server.Serve(listener)
}

func open(address string) (calling.Echo, error) {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	client := echo.NewEchoClient(connection)
	return func(request []byte) ([]byte, error) {
		answer, err := client.Echo(context.Background(), &echo.Bytes{Data: request})
		return answer.GetData(), err
	}, nil
}
