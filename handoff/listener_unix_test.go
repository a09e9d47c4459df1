//go:build unix

package handoff_test

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// A said is what was logged.
type said struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (s *said) Write(line []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.Write(line)
}

func (s *said) count(text string) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return strings.Count(s.text.String(), text)
}

// A listener that cannot accept for a while, as one without descriptors, does not fill the log,
// and accepts when it can.
func TestListenerThatCannotAccept(t *testing.T) {
	address := newAddress(t)
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: strings.TrimPrefix(address, "unix:")})
	must(t, err)
	must(t, socket.SetDeadline(time.Unix(1, 0)))
	var log said
	l := handoff.ListenOn(socket, handoff.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	defer l.Close()
	for end := time.Now().Add(patience); log.count("cannot accept a channel") == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not say that it cannot accept")
		}
	}
	time.Sleep(300 * time.Millisecond) // How often it says so in that time is the point.
	if count := log.count("cannot accept a channel"); count != 1 {
		t.Errorf("it said so %d times", count)
	}
	must(t, socket.SetDeadline(time.Time{}))
	peer, err := handoff.Dial(testContext(t), address)
	must(t, err)
	must(t, peer.Close())
}

// Listeners of Go speak Multipath TCP where the kernel does. Each that is given is taken.
func TestListenersOfMultipathTCP(t *testing.T) {
	l, address := listen(t)
	var config net.ListenConfig
	config.SetMultipathTCP(true)
	given, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer given.Close()
	peer := dial(t, address)
	taken := make(chan net.Listener, 1)
	go func() {
		defer close(taken)
		for {
			one, _, err := l.AcceptListener(t.Context())
			if err != nil {
				if t.Context().Err() == nil {
					t.Error(err)
				}
				return
			}
			taken <- one
		}
	}()
	const times = 500
	for range times {
		must(t, peer.SendListener(testContext(t), given, handoff.Meta{}))
		one, ok := <-taken
		if !ok {
			return
		}
		if one.Addr().String() != given.Addr().String() {
			t.Errorf("it listens at %s, want %s", one.Addr(), given.Addr())
		}
		must(t, one.Close())
	}
}
