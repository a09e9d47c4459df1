package client_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/status"
)

// elsewhereConn is a connection whose server seems to be on another machine.
type elsewhereConn struct{ *net.TCPConn }

func (elsewhereConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7000}
}

// dialElsewhere returns the option for connections to an address that seem to lead elsewhere.
func dialElsewhere(address string) client.Option {
	return client.WithDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(address, "tcp:"))
		if err != nil {
			return nil, err
		}
		return elsewhereConn{conn.(*net.TCPConn)}, nil
	})
}

func TestPlainCallsToOtherMachines(t *testing.T) {
	address := serveDemo(t, "tcp:127.0.0.1:0")
	for name, row := range map[string]struct {
		parameters string
		options    []client.Option
		warnings   int
		refused    bool
	}{
		"warned once":      {"", nil, 1, false},
		"quiet":            {"?plain=quiet", nil, 0, false},
		"warn":             {"?plain=warn", nil, 1, false},
		"refused by it":    {"?plain=refuse", nil, 0, true},
		"refused":          {"", []client.Option{client.WithPlainRefused()}, 0, true},
		"refused although": {"?plain=quiet", []client.Option{client.WithPlainRefused()}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			c := newClient(t, address+row.parameters, append(row.options, dialElsewhere(address), client.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...)
			for range 2 {
				_, err := client.Call[int64](context.Background(), c, "ack", 2, 3)
				if !row.refused {
					must(t, err)
					continue
				}
				expectFailure(t, err, status.FailedPrecondition, status.OutcomeNotExecuted)
			}
			if warnings := strings.Count(log.String(), "can be read and changed"); warnings != row.warnings {
				t.Errorf("%d warnings, want %d", warnings, row.warnings)
			}
		})
	}
	c := newClient(t, address, client.WithPlainRefused())
	if _, err := client.Call[int64](context.Background(), c, "ack", 2, 3); err != nil {
		t.Errorf("a call within this machine: %v", err)
	}
	var failure *status.Error
	if _, err := client.New("tcp:127.0.0.1:1?plain=no"); !errors.As(err, &failure) || failure.Code != status.InvalidArgument {
		t.Errorf("plain=no: %v", err)
	}
}
