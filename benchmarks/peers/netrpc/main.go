// net/rpc of the standard library.
package main

import (
	"errors"
	"net"
	"net/rpc"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

func main() {
	program.Main(program.Peer{
		Connections:   program.OneForAll,
		Configuration: "Unix socket, gob (the default codec); every answer is read into a slice of its own",
		Documentation: "https://pkg.go.dev/net/rpc",
		Serve:         program.OnSocket(serve),
		Open:          program.AtPath(program.Shared(open)),
	})
}

// Echo is the service.
type Echo struct{}

// Echo returns the request.
func (Echo) Echo(request []byte, answer *[]byte) error {
	*answer = request
	return nil
}

func serve(listener net.Listener) error {
	if err := rpc.Register(Echo{}); err != nil {
		return err
	}
	rpc.Accept(listener)
	return errors.New("rpc.Accept has returned")
}

func open(path string) (calling.Echo, error) {
	client, err := rpc.Dial("unix", path)
	return func(request []byte) (answer []byte, err error) {
		err = client.Call("Echo.Echo", request, &answer)
		return answer, err
	}, err
}
