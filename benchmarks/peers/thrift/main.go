// Apache Thrift.
package main

import (
	"context"
	"net"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
	"github.com/nearcall/nearcall/benchmarks/peers/thrift/echo"
)

func main() {
	program.Main(program.Peer{
		Connections: program.OneEach,
		Configuration: "Unix socket, binary protocol over a buffered transport (the tutorial's -buffered: without it every field is a system call)," +
			" TSimpleServer, a goroutine a connection, which looks every 5 ms of a call whether its client is there, as by default; a client is for one goroutine",
		Documentation: "https://thrift.apache.org/tutorial/go.html",
		Modules:       []string{"github.com/apache/thrift"},
		Serve:         serve,
		Open:          program.AtPath(program.Each(open)),
	})
}

type service struct{}

func (service) Echo(_ context.Context, data []byte) ([]byte, error) { return data, nil }

// bufferBytes is that of the tutorial.
const bufferBytes = 8192

func transports() thrift.TTransportFactory { return thrift.NewTBufferedTransportFactory(bufferBytes) }

func serve(path string) (program.Server, error) {
	socket := thrift.NewTServerSocketFromAddrTimeout(&net.UnixAddr{Name: path, Net: "unix"}, 0)
	if err := socket.Listen(); err != nil {
		return program.Server{}, err
	}
	server := thrift.NewTSimpleServer4(echo.NewEchoProcessor(service{}), socket, transports(), thrift.NewTBinaryProtocolFactoryConf(nil))
	return program.Server{Address: "unix:" + path, Run: server.Serve}, nil
}

func open(path string) (calling.Echo, error) {
	socket := thrift.NewTSocketFromAddrConf(&net.UnixAddr{Name: path, Net: "unix"}, nil)
	transport, err := transports().GetTransport(socket)
	if err != nil {
		return nil, err
	}
	if err := transport.Open(); err != nil {
		return nil, err
	}
	client := echo.NewEchoClientFactory(transport, thrift.NewTBinaryProtocolFactoryConf(nil))
	return func(request []byte) ([]byte, error) { return client.Echo(context.Background(), request) }, nil
}
