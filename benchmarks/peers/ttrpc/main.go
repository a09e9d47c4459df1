// ttrpc, containerd's RPC.
package main

import (
	"context"
	"net"

	"github.com/containerd/ttrpc"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
	"github.com/nearcall/nearcall/benchmarks/peers/protobuf"
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

func serve(listener net.Listener) error {
	server, err := ttrpc.NewServer(ttrpc.WithServerHandshaker(ttrpc.UnixSocketRequireSameUser()))
	if err != nil {
		return err
	}
	server.RegisterService(protobuf.Service, &ttrpc.ServiceDesc{Methods: map[string]ttrpc.Method{protobuf.Method: answer}})
	return server.Serve(context.Background(), listener)
}

func answer(ctx context.Context, decode func(any) error) (any, error) {
	request := new(protobuf.Bytes)
	if err := decode(request); err != nil {
		return nil, err
	}
	return protobuf.Answer(ctx, request)
}

func open(path string) (calling.Echo, error) {
	connection, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	client := ttrpc.NewClient(connection)
	return protobuf.Echo(func(ctx context.Context, request, answer *protobuf.Bytes) error {
		return client.Call(ctx, protobuf.Service, protobuf.Method, request, answer)
	}), nil
}
