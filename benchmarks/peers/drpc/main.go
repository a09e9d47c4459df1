// DRPC, Storj's RPC.
package main

import (
	"context"
	"net"

	"google.golang.org/protobuf/proto"
	"storj.io/drpc"
	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcmux"
	"storj.io/drpc/drpcpool"
	"storj.io/drpc/drpcserver"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
	"github.com/nearcall/nearcall/benchmarks/peers/protobuf"
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

func (service) Echo(ctx context.Context, request *protobuf.Bytes) (*protobuf.Bytes, error) {
	return protobuf.Answer(ctx, request)
}

// NumMethods is how many the service has.
func (service) NumMethods() int { return 1 }

// Method is the one that it has.
func (service) Method(n int) (string, drpc.Encoding, drpc.Receiver, any, bool) {
	receive := func(server any, ctx context.Context, request, _ any) (drpc.Message, error) {
		return server.(service).Echo(ctx, request.(*protobuf.Bytes))
	}
	return protobuf.Path, encoding{}, receive, service.Echo, n == 0
}

// encoding is what DRPC's compiler makes for protobuf.
type encoding struct{}

func (encoding) Marshal(m drpc.Message) ([]byte, error) { return proto.Marshal(m.(proto.Message)) }

func (encoding) MarshalAppend(to []byte, m drpc.Message) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(to, m.(proto.Message))
}

func (encoding) Unmarshal(from []byte, m drpc.Message) error {
	return proto.Unmarshal(from, m.(proto.Message))
}

func serve(listener net.Listener) error {
	mux := drpcmux.New()
	if err := mux.Register(service{}, service{}); err != nil {
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
	connection := pool.Get(context.Background(), path, dial)
	return program.Shared(func(string) (calling.Echo, error) {
		return protobuf.Echo(func(ctx context.Context, request, answer *protobuf.Bytes) error {
			return connection.Invoke(ctx, protobuf.Path, encoding{}, request, answer)
		}), nil
	})(path, callers)
}
