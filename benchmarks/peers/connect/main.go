// Connect over a Unix socket, by HTTP/2 without TLS.
package main

import (
	"context"
	"net"
	"net/http"

	"connectrpc.com/connect"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
	"github.com/nearcall/nearcall/benchmarks/peers/protobuf"
)

func main() {
	program.Main(program.Peer{
		Connections:   program.OneForAll,
		Configuration: "Unix socket, Connect protocol, protobuf, unencrypted HTTP/2 of net/http on both sides; gzip, which it would compress every answer with, is off",
		Documentation: "https://connectrpc.com/docs/go/deployment/",
		Modules:       []string{"connectrpc.com/connect"},
		Serve:         program.OnSocket(serve),
		Open:          program.AtPath(program.Shared(open)),
	})
}

func answer(_ context.Context, request *connect.Request[protobuf.Bytes]) (*connect.Response[protobuf.Bytes], error) {
	return connect.NewResponse(request.Msg), nil
}

const gzip = "gzip"

func http2() *http.Protocols {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return protocols
}

func serve(listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle(protobuf.Path, connect.NewUnaryHandler(protobuf.Path, answer, connect.WithCompression(gzip, nil, nil)))
	server := &http.Server{Handler: mux, Protocols: http2()}
	return server.Serve(listener)
}

func open(path string) (calling.Echo, error) {
	transport := &http.Transport{
		Protocols: http2(),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}
	client := connect.NewClient[protobuf.Bytes, protobuf.Bytes](&http.Client{Transport: transport}, "http://localhost"+protobuf.Path,
		connect.WithAcceptCompression(gzip, nil, nil))
	return func(request []byte) ([]byte, error) {
		answer, err := client.CallUnary(context.Background(), connect.NewRequest(&protobuf.Bytes{Value: request}))
		if err != nil {
			return nil, err
		}
		return answer.Msg.GetValue(), nil
	}, nil
}
