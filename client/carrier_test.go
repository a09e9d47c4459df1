package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/inprocess"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

// serveInProcess serves the demonstration functions over a network without sockets, and
// returns the option that makes a client use it.
func serveInProcess(t *testing.T, network *inprocess.Network) client.Option {
	t.Helper()
	s, err := server.New(server.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	demo.Register(s)
	target := address.Address{Network: "tcp", Target: "127.0.0.1:1"}
	listener, err := network.Listen(t.Context(), target, transport.ListenOptions{})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		must(t, <-served)
	})
	return client.WithDialer(func(ctx context.Context, _ string) (net.Conn, error) { return network.Dial(ctx, target) })
}

// Neither side needs a socket of the kernel.
func TestCarrierWithoutSocket(t *testing.T) {
	for name, certainty := range map[string]transport.Certainty{"TakenOnly": transport.TakenOnly, "UnreadReported": transport.UnreadReported} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, "tcp:127.0.0.1:1", serveInProcess(t, &inprocess.Network{Certainty: certainty}))
			ctx := context.Background()
			_, err := c.Ping(ctx)
			must(t, err)
			var callers sync.WaitGroup
			for caller := range 8 {
				callers.Go(func() { callInSizes(t, c, byte(caller)) })
			}
			callers.Wait()
			if err := c.Call(shortContext(t), "sleep", nil, 5000); !errors.Is(err, status.DeadlineExceeded) {
				t.Error(err)
			}
		})
	}
}

// callInSizes makes calls whose requests are collected, written directly, and taken in
// part.
func callInSizes(t *testing.T, c *client.Client, filler byte) {
	for _, size := range []int{0, 1, 100, 4 << 10, 20 << 10, 100 << 10, 3 << 20} {
		sent := bytes.Repeat([]byte{filler}, size)
		got, err := c.CallRaw(context.Background(), "echo", sent, nil)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes came back as %d: %v", size, len(got), err)
		}
	}
}

// greet answers the hello on a connection, and reads so many bytes of what follows.
func greet(conn net.Conn, further int) error {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	var hello wire.Hello
	got := make([]byte, 0, wire.HelloBytesMax)
	for taken := 0; taken == 0; {
		n, err := conn.Read(got[len(got):cap(got)])
		if err != nil {
			return err
		}
		got = got[:len(got)+n]
		if taken, err = wire.ParseHello(got, &hello); err != nil {
			return err
		}
	}
	welcome := wire.Welcome{Version: wire.Version, Instance: 1, ProcessID: uint32(os.Getpid()), ClockNs: monotonic.New().Ns(),
		FrameBytesMax: wire.FrameBytesMax, CallsInFlightMax: wire.CallsInFlightMax, SchemaHash: 7}
	if _, err := conn.Write(welcome.Append(nil)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, further))
	return err
}

// The request of callOnce.
const (
	questionName = "f"
	question     = "question"
)

// requestBytes is its size.
var requestBytes = wire.HeaderBytes + len(wire.AppendExtension(nil, wire.ExtensionFunctionName, questionName)) + len(question)

// callOnce makes one call on a connection whose other end does what serve says.
func callOnce(t *testing.T, to string, dialed net.Conn, serve func() error, code status.Code, outcome status.Outcome) {
	t.Helper()
	c := newClient(t, to, client.WithAttempts(1), client.WithAnyServerUser(),
		client.WithDialer(func(context.Context, string) (net.Conn, error) { return dialed, nil }))
	served := make(chan error, 1)
	go func() { served <- serve() }()
	_, err := c.CallRaw(context.Background(), questionName, []byte(question), nil)
	must(t, <-served)
	expectFailure(t, err, code, outcome)
}

// A reset says that a request was not read only if the carrier reports it for nothing
// else.
func TestOutcomeFollowsCertainty(t *testing.T) {
	for _, test := range []struct {
		name      string
		certainty transport.Certainty
		end       func(*inprocess.Conn)
		read      int
		outcome   status.Outcome
	}{
		{"ReadInPart", transport.UnreadReported, func(c *inprocess.Conn) { c.Close() }, 1, status.OutcomeNotExecuted},
		{"ReadWhole", transport.UnreadReported, func(c *inprocess.Conn) { c.Close() }, requestBytes, status.OutcomeUnknown},
		{"NothingIsCertain", transport.TakenOnly, func(c *inprocess.Conn) { c.Close() }, 1, status.OutcomeUnknown},
		{"ResetAfterReading", transport.TakenOnly, (*inprocess.Conn).Break, requestBytes, status.OutcomeUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			network := &inprocess.Network{Certainty: test.certainty}
			caller, served := network.Pair(&net.TCPAddr{})
			callOnce(t, "unix:/not/there", caller, func() error {
				err := greet(served, test.read)
				test.end(served)
				return err
			}, status.Unavailable, test.outcome)
		})
	}
}

// What a dialer returns for the address of a local socket need not be one: over TCP, a
// reset also follows a request that was read.
func TestResetBehindADialer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	dialed, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	callOnce(t, "unix:/not/there", dialed, func() error {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		return errors.Join(greet(conn, requestBytes), conn.(*net.TCPConn).SetLinger(0), conn.Close())
	}, status.Unavailable, status.OutcomeUnknown)
}
