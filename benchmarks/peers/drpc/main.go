// DRPC, Storj's RPC.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcmux"
	"storj.io/drpc/drpcpool"
	"storj.io/drpc/drpcserver"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/drpc/echo"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

type peer struct{}

func main() { program.Main(peer{}) }

func (peer) Configuration() string {
	return "Unix socket, protobuf; a connection does one call at a time, so callers share a drpcpool with room for a connection each"
}
func (peer) Documentation() string { return "https://pkg.go.dev/storj.io/drpc/drpcpool" }
func (peer) Module() string        { return "storj.io/drpc" }

type service struct{}

func (service) Echo(_ context.Context, request *echo.Bytes) (*echo.Bytes, error) {
	return request, nil
}

func (peer) Serve(path string) (string, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return "", err
	}
	mux := drpcmux.New()
	if err := echo.DRPCRegisterEcho(mux, service{}); err != nil {
		return "", err
	}
	server := drpcserver.New(mux)
	go func() { fmt.Fprintln(os.Stderr, "drpc:", server.Serve(context.Background(), listener)) }()
	return "unix:" + path, nil
}

func (peer) Open(address string, _, callers int) ([]calling.Echo, error) {
	path, err := calling.Socket(address)
	if err != nil {
		return nil, err
	}
	pool := drpcpool.New[string, drpcpool.Conn](drpcpool.Options{Capacity: callers})
	dial := func(ctx context.Context, path string) (drpcpool.Conn, error) {
		connection, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err != nil {
			return nil, err
		}
		return drpcconn.New(connection), nil
	}
	client := echo.NewDRPCEchoClient(pool.Get(context.Background(), path, dial))
	return program.Shared(callers, func(request []byte) ([]byte, error) {
		answer, err := client.Echo(context.Background(), &echo.Bytes{Data: request})
		return answer.GetData(), err
	}), nil
}
