package eventloop_test

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/server"
)

func TestParkedConnectionsAreCounted(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		s := newServer(t)
		r := serve(t, s, address)
		defer r.end()
		callers := []*caller{r.connect(), r.connect(), r.connect()}
		for range 20 {
			callers[0].wantEcho("busy")
		}
		waitFor(t, func() bool { return s.Statistics().Parked == int64(len(callers)) })
		for _, c := range callers {
			c.Close()
		}
		waitFor(t, func() bool { return s.Statistics().Parked == 0 && s.Statistics().Connections == 0 })
	})
}

// A wrapping listener hides the sockets that it accepts, as TLS does.
type wrapping struct{ net.Listener }

func (l wrapping) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return struct{ net.Conn }{conn}, err
}

// TestUnparkedIsTold: connections that the engine does not take are served, and the
// log says so once.
func TestUnparkedIsTold(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	listener, err := s.Listen(t.Context(), unixAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	r := serveOn(t, s, wrapping{listener})
	for range 3 {
		r.connect().wantEcho("served all the same")
	}
	if parked := s.Statistics().Parked; parked != 0 {
		t.Errorf("%d connections are parked", parked)
	}
	r.end()
	if told := strings.Count(log.String(), "waits in a goroutine"); told != 1 || !strings.Contains(log.String(), "struct { net.Conn }") {
		t.Errorf("the log tells of it %d times, want 1:\n%s", told, log.String())
	}
}
