// net/rpc of the standard library.
package main

import (
	"net"
	"net/rpc"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

type peer struct{}

func main() { program.Main(peer{}) }

func (peer) Configuration() string {
	return "Unix socket, gob (the default codec); all callers share one client"
}
func (peer) Documentation() string { return "https://pkg.go.dev/net/rpc" }
func (peer) Module() string        { return "" }

// Echo is the service.
type Echo struct{}

// Echo returns the request.
func (Echo) Echo(request []byte, answer *[]byte) error {
	*answer = request
	return nil
}

func (peer) Serve(path string) (string, error) {
	if err := rpc.Register(Echo{}); err != nil {
		return "", err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return "", err
	}
	go rpc.Accept(listener)
	return "unix:" + path, nil
}

func (peer) Open(address string, _, callers int) ([]calling.Echo, error) {
	path, err := calling.Socket(address)
	if err != nil {
		return nil, err
	}
	client, err := rpc.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return program.Shared(callers, func(request []byte) (answer []byte, err error) {
		err = client.Call("Echo.Echo", request, &answer)
		return answer, err
	}), nil
}
