// Connect over a Unix socket, by HTTP/2 without TLS.
package main

import (
	"context"
	"net"
	"net/http"

	"connectrpc.com/connect"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/connect/echo"
	"github.com/nearcall/nearcall/benchmarks/peers/connect/echo/echoconnect"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
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

type service struct{}

func (service) Echo(_ context.Context, request *connect.Request[echo.Bytes]) (*connect.Response[echo.Bytes], error) {
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
	mux.Handle(echoconnect.NewEchoHandler(service{}, connect.WithCompression(gzip, nil, nil)))
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
	client := echoconnect.NewEchoClient(&http.Client{Transport: transport}, "http://localhost", connect.WithAcceptCompression(gzip, nil, nil))
	return func(request []byte) ([]byte, error) {
		answer, err := client.Echo(context.Background(), connect.NewRequest(&echo.Bytes{Data: request}))
		if err != nil {
			return nil, err
		}
		return answer.Msg.GetData(), nil
	}, nil
}
