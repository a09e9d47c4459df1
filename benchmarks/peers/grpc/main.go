// gRPC over a Unix socket.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/grpc/echo"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

type peer struct{}

func main() { program.Main(peer{}) }

func (peer) Configuration() string {
	return "Unix socket, protobuf, insecure credentials, everything else as it is by default; all callers share one channel and stub"
}
func (peer) Documentation() string { return "https://grpc.io/docs/guides/performance/" }
func (peer) Module() string        { return "google.golang.org/grpc" }

type service struct{ echo.UnimplementedEchoServer }

func (service) Echo(_ context.Context, request *echo.Bytes) (*echo.Bytes, error) {
	return request, nil
}

func (peer) Serve(path string) (string, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return "", err
	}
	server := grpc.NewServer()
	echo.RegisterEchoServer(server, service{})
	go func() { fmt.Fprintln(os.Stderr, "grpc:", server.Serve(listener)) }()
	return "unix:" + path, nil
}

func (peer) Open(address string, _, callers int) ([]calling.Echo, error) {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	client := echo.NewEchoClient(connection)
	return program.Shared(callers, func(request []byte) ([]byte, error) {
		answer, err := client.Echo(context.Background(), &echo.Bytes{Data: request})
		return answer.GetData(), err
	}), nil
}
