// DRPC, Storj's RPC.
package main

import (
	"context"
	"net"

	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcmux"
	"storj.io/drpc/drpcpool"
	"storj.io/drpc/drpcserver"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/drpc/echo"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

func main() {
	program.Main(program.Peer{
		Connections:   program.OneEach + ", from a pool",
		Configuration: "Unix socket, protobuf; a connection does one call at a time, so callers share a drpcpool with room for a connection each",
		Documentation: "https://pkg.go.dev/storj.io/drpc/drpcpool",
		Modules:       []string{"storj.io/drpc"},
		Serve:         program.OnSocket(serve),
		Open:          program.AtPath(open),
	})
}

type service struct{}

func (service) Echo(_ context.Context, request *echo.Bytes) (*echo.Bytes, error) {
	return request, nil
}

func serve(listener net.Listener) error {
	mux := drpcmux.New()
	if err := echo.DRPCRegisterEcho(mux, service{}); err != nil {
		return err
	}
	return drpcserver.New(mux).Serve(context.Background(), listener)
}

func open(path string, callers int) ([]calling.Echo, error) {
	pool := drpcpool.New[string, drpcpool.Conn](drpcpool.Options{Capacity: callers})
	dial := func(ctx context.Context, path string) (drpcpool.Conn, error) {
		connection, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err != nil {
			return nil, err
		}
		return drpcconn.New(connection), nil
	}
	client := echo.NewDRPCEchoClient(pool.Get(context.Background(), path, dial))
	return program.Shared(func(string) (calling.Echo, error) {
		return func(request []byte) ([]byte, error) {
			answer, err := client.Echo(context.Background(), &echo.Bytes{Data: request})
			return answer.GetData(), err
		}, nil
	})(path, callers)
}
