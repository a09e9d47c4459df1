// Apache Thrift.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
	"github.com/nearcall/nearcall/benchmarks/peers/thrift/echo"
)

type peer struct{}

func main() { program.Main(peer{}) }

func (peer) Configuration() string {
	return "Unix socket, framed transport over a buffered one, binary protocol, TSimpleServer (a goroutine a connection); a client is for one goroutine, so each caller has its own"
}
func (peer) Documentation() string { return "https://thrift.apache.org/tutorial/go.html" }
func (peer) Module() string        { return "github.com/apache/thrift" }

type service struct{}

func (service) Echo(_ context.Context, data []byte) ([]byte, error) { return data, nil }

// bufferBytes is that of the tutorial.
const bufferBytes = 8192

func transports() thrift.TTransportFactory {
	return thrift.NewTFramedTransportFactoryConf(thrift.NewTBufferedTransportFactory(bufferBytes), nil)
}

func (peer) Serve(path string) (string, error) {
	socket := thrift.NewTServerSocketFromAddrTimeout(&net.UnixAddr{Name: path, Net: "unix"}, 0)
	if err := socket.Listen(); err != nil {
		return "", err
	}
	server := thrift.NewTSimpleServer4(echo.NewEchoProcessor(service{}), socket, transports(), thrift.NewTBinaryProtocolFactoryConf(nil))
	go func() { fmt.Fprintln(os.Stderr, "thrift:", server.Serve()) }()
	return "unix:" + path, nil
}

func (peer) Open(address string, _, callers int) ([]calling.Echo, error) {
	path, err := calling.Socket(address)
	if err != nil {
		return nil, err
	}
	echoes := make([]calling.Echo, callers)
	for i := range echoes {
		client, err := open(path)
		if err != nil {
			return nil, err
		}
		echoes[i] = func(request []byte) ([]byte, error) { return client.Echo(context.Background(), request) }
	}
	return echoes, nil
}

func open(path string) (*echo.EchoClient, error) {
	socket := thrift.NewTSocketFromAddrConf(&net.UnixAddr{Name: path, Net: "unix"}, nil)
	transport, err := transports().GetTransport(socket)
	if err != nil {
		return nil, err
	}
	if err := transport.Open(); err != nil {
		return nil, err
	}
	return echo.NewEchoClientFactory(transport, thrift.NewTBinaryProtocolFactoryConf(nil)), nil
}
