// gRPC over a Unix socket.
package main

import (
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

func serve(listener net.Listener) error {
	server := grpc.NewServer()
	echo.Register(server)
	return server.Serve(listener)
}

func open(address string) (calling.Echo, error) {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return echo.Of(connection), err
}
