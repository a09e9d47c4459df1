package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/status"
)

// Connections of a dialer are used like others, and are made again when one was lost.
func TestDialer(t *testing.T) {
	path := strings.TrimPrefix(demoServer(t), "unix:")
	var dialed []net.Conn
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		if address != "unix:/not/there" {
			t.Errorf("the dialer was given %q", address)
		}
		conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
		dialed = append(dialed, conn)
		return conn, err
	}
	c := newClient(t, "unix:/not/there", client.WithDialer(dial), client.WithAnyServerUser())
	for round := range 2 {
		sum, err := client.Call[int64](context.Background(), c, "ack", 2, 3)
		must(t, err)
		if sum != 9 || len(dialed) != round+1 {
			t.Fatalf("got %d by connection %d of %d", sum, round+1, len(dialed))
		}
		must(t, dialed[round].Close())
		eventually(t, func() bool { return c.Transport() == "" }, func() string { return "the end of the connection is not noticed" })
	}
}

func TestDialerFails(t *testing.T) {
	failed := errors.New("no tunnel")
	c := newClient(t, "unix:/not/there", client.WithAttempts(1),
		client.WithDialer(func(context.Context, string) (net.Conn, error) { return nil, failed }))
	_, err := client.Call[int64](context.Background(), c, "ack", 2, 3)
	expectFailure(t, err, status.Unavailable, status.OutcomeNotExecuted)
	if !errors.Is(err, failed) {
		t.Errorf("%v is not what the dialer returned", err)
	}
}

// A connection that can only wait is refused before anything is sent.
func TestDialerWithoutRoom(t *testing.T) {
	dialed, other := net.Pipe()
	t.Cleanup(func() { other.Close() })
	c := newClient(t, "tcp:127.0.0.1:1", client.WithAttempts(1),
		client.WithDialer(func(context.Context, string) (net.Conn, error) { return dialed, nil }))
	_, err := client.Call[int64](context.Background(), c, "ack", 2, 3)
	expectFailure(t, err, status.Internal, status.OutcomeNotExecuted)
	if !strings.Contains(err.Error(), "*net.pipe") || !strings.Contains(err.Error(), "package net") {
		t.Errorf("%v does not say what is wrong and what to return", err)
	}
}
