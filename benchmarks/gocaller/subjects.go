package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/frames"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/internal/wire"
)

// What calls may take. A deadline is not meant to pass: it is there for what it
// costs, as in the benchmarks of Go's package net.
const (
	noDeadline   = client.NoTimeout
	withDeadline = time.Minute
)

// echoes are the callers of this process.
type echoes struct {
	calls []calling.Echo
	// clients are those that stay.
	clients []*client.Client
}

// openers open callers, by mode.
var openers = map[string]func(address string, callers int) (echoes, error){
	"bare": openBare, "idle": openIdle, "typed": openTyped, "parcel": openParcels, "floats": openFloats,
	"shared":             func(address string, callers int) (echoes, error) { return openClients(address, 1, callers) },
	"values":             openValues,
	"each":               openEach(withDeadline),
	"persistent":         openEach(noDeadline),
	"persistent-timeout": openEach(withDeadline),
	"oneshot":            openOneShot(noDeadline),
	"oneshot-timeout":    openOneShot(withDeadline),
}

func openEach(timeout time.Duration) func(address string, callers int) (echoes, error) {
	return func(address string, callers int) (echoes, error) {
		return openClients(address, callers, callers, client.WithTimeout(timeout))
	}
}

// openValues is "shared" with values of any size.
func openValues(address string, callers int) (echoes, error) {
	return openClients(address, 1, callers, client.WithValueBytesMax(wire.ValueBytesMaxCeiling))
}

// openClients returns callers that have that many clients, that is connections, in turns.
func openClients(address string, clients, callers int, options ...client.Option) (echoes, error) {
	all := echoes{}
	if strings.HasPrefix(address, "tls:") {
		options = append(options, clienttls.With(clienttls.Files{})) // the address names the authority
	}
	for range clients {
		c, err := client.New(address, options...)
		if err != nil {
			return echoes{}, err
		}
		all.clients = append(all.clients, c)
	}
	for i := range callers {
		all.calls = append(all.calls, echoBy(all.clients[i%clients]))
	}
	return all, nil
}

func echoBy(c *client.Client) calling.Echo {
	ctx := context.Background()
	var answer []byte
	return func(request []byte) ([]byte, error) {
		var err error
		answer, err = c.CallRaw(ctx, "echo", request, answer[:0])
		return answer, err
	}
}

// openTyped returns callers that share a client and call as programs write it: values in
// MessagePack, every answer a slice of its own.
func openTyped(address string, callers int) (echoes, error) {
	all, err := openClients(address, 1, callers)
	if err != nil {
		return echoes{}, err
	}
	echo := client.Func1[[]byte, []byte](all.clients[0], "echo")
	for i := range all.calls {
		all.calls[i] = func(request []byte) ([]byte, error) { return echo(context.Background(), request) }
	}
	return all, nil
}

// A parcel is what forward passes on: bytes in a struct, as programs have them.
type parcel struct {
	Label string `nearcall:"label"`
	Data  []byte `nearcall:"data"`
}

// openParcels is openTyped with the bytes in a struct, and as by "shared" every answer is
// stored where the one before it was.
func openParcels(address string, callers int) (echoes, error) {
	all, err := openClients(address, 1, callers)
	if err != nil {
		return echoes{}, err
	}
	reusing := all.clients[0].With(client.ReuseResult())
	for i := range all.calls {
		var answer parcel
		all.calls[i] = func(request []byte) ([]byte, error) {
			err := reusing.Call(context.Background(), "forward", &answer, parcel{Label: "benchmark", Data: request})
			return answer.Data, err
		}
	}
	return all, nil
}

// openOneShot opens callers that connect, call once and close: each of these times.
func openOneShot(timeout time.Duration) func(address string, callers int) (echoes, error) {
	return func(address string, callers int) (echoes, error) {
		echo := func(request []byte) ([]byte, error) {
			c, err := client.New(address, client.WithTimeout(timeout))
			if err != nil {
				return nil, err
			}
			defer c.Close()
			return echoBy(c)(request)
		}
		return echoes{calls: slices.Repeat([]calling.Echo{echo}, callers)}, nil
	}
}

// openIdle returns callers with a connection each, and nothing else that takes memory.
func openIdle(address string, callers int) (echoes, error) {
	all := echoes{}
	for n := range callers {
		c, err := frames.Connect(strings.TrimPrefix(address, "unix:"))
		var function uint32
		if err == nil {
			function, err = c.Resolve("echo")
		}
		if err != nil {
			return echoes{}, fmt.Errorf("connection %d of %d: %w", n+1, callers, err)
		}
		all.calls = append(all.calls, func(request []byte) ([]byte, error) { return c.Call(function, wire.CodecRaw, request) })
	}
	return all, nil
}

// openBare returns callers with a connection each.
func openBare(address string, callers int) (echoes, error) {
	network, target, _ := strings.Cut(address, ":")
	all := echoes{}
	for range callers {
		connection, err := dialBare(network, target)
		if err != nil {
			return echoes{}, err
		}
		all.calls = append(all.calls, bareEcho(connection))
	}
	return all, nil
}

// dialBare trusts whoever answers: the floor of TLS is what it costs, and a name is looked at
// once for a connection.
func dialBare(network, target string) (net.Conn, error) {
	if network == "tls" {
		return tls.Dial("tcp", target, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	}
	return net.Dial(network, target)
}

// bareEcho sends messages with their length before them.
func bareEcho(connection net.Conn) calling.Echo {
	var message []byte
	reader := bufio.NewReaderSize(connection, 64<<10)
	return func(request []byte) ([]byte, error) {
		message = binary.BigEndian.AppendUint32(message[:0], uint32(len(request)))
		prefix := len(message)
		message = append(message, request...)
		if _, err := connection.Write(message); err != nil {
			return nil, err
		}
		// The answer is as long, or the lengths of those that follow are nonsense.
		if _, err := io.ReadFull(reader, message); err != nil {
			return nil, err
		}
		if length := binary.BigEndian.Uint32(message); int(length) != len(request) {
			return nil, calling.ErrDiffers
		}
		return message[prefix:], nil
	}
}

// transport tells how the calls went that went slowest; Unknown where nothing can.
func (all echoes) transport() protocol.Transport {
	if len(all.clients) == 0 {
		return protocol.Unknown
	}
	least := protocol.TLS
	for _, c := range all.clients {
		least = min(least, protocol.TransportOf(c.Transport()))
	}
	return least
}

// reachMemory calls until servers have given shared memory, where they may.
func (all echoes) reachMemory(calls []calling.Call) error {
	for i, c := range all.clients {
		if err := calling.UntilMemory(calls[i], c.Transport); err != nil {
			return err
		}
	}
	return nil
}
