// Package echo is the service of the peers that are gRPC: grpc and goplugin.
package echo

import (
	"context"

	"google.golang.org/grpc"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/protobuf"
)

// Register lets a server have it.
func Register(server grpc.ServiceRegistrar) {
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: protobuf.Service,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: protobuf.Method, Handler: answer}},
	}, nil)
}

// answer is called without an interceptor: no peer has one.
func answer(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	request := new(protobuf.Bytes)
	if err := decode(request); err != nil {
		return nil, err
	}
	return protobuf.Answer(ctx, request)
}

// Of returns a caller of the service at the other end.
func Of(connection grpc.ClientConnInterface) calling.Echo {
	return protobuf.Echo(func(ctx context.Context, request, answer *protobuf.Bytes) error {
		return connection.Invoke(ctx, protobuf.Path, request, answer, grpc.StaticMethod())
	})
}
