// Connect over a Unix socket, by HTTP/2 without TLS.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"connectrpc.com/connect"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/connect/echo"
	"github.com/nearcall/nearcall/benchmarks/peers/connect/echo/echoconnect"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

type peer struct{}

func main() { program.Main(peer{}) }

func (peer) Configuration() string {
	return "Unix socket, Connect protocol, protobuf, unencrypted HTTP/2 of net/http on both sides; all callers share one client"
}
func (peer) Documentation() string { return "https://connectrpc.com/docs/go/deployment/" }
func (peer) Module() string        { return "connectrpc.com/connect" }

type service struct{}

func (service) Echo(_ context.Context, request *connect.Request[echo.Bytes]) (*connect.Response[echo.Bytes], error) {
	return connect.NewResponse(request.Msg), nil
}

func http2() *http.Protocols {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return protocols
}

func (peer) Serve(path string) (string, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.Handle(echoconnect.NewEchoHandler(service{}))
	server := &http.Server{Handler: mux, Protocols: http2()}
	go func() { fmt.Fprintln(os.Stderr, "connect:", server.Serve(listener)) }()
	return "unix:" + path, nil
}

func (peer) Open(address string, _, callers int) ([]calling.Echo, error) {
	path, err := calling.Socket(address)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Protocols: http2(),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}
	client := echoconnect.NewEchoClient(&http.Client{Transport: transport}, "http://localhost")
	return program.Shared(callers, func(request []byte) ([]byte, error) {
		answer, err := client.Echo(context.Background(), connect.NewRequest(&echo.Bytes{Data: request}))
		if err != nil {
			return nil, err
		}
		return answer.Msg.GetData(), nil
	}), nil
}
