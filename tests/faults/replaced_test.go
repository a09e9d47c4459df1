package faults_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

const (
	replacedFor = 2 * time.Second
	// So many callers keep the ring and the socket of one connection full, with requests that
	// overtake each other on the two ways.
	replacedCallers = 100
	replacedValues  = 1500
)

// TestNothingIsLostWhenServersAreReplaced: two servers on one listening socket are stopped again and
// again. Each call of many large ones is answered, and runs once.
func TestNothingIsLostWhenServersAreReplaced(t *testing.T) {
	t.Run("Unix", func(t *testing.T) {
		listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		replaceServers(t, listener, "unix:"+listener.Addr().String(), 30*time.Millisecond)
	})
	t.Run("TCP", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		replaceServers(t, listener, "tcp:"+listener.Addr().String(), 60*time.Millisecond)
	})
}

func replaceServers(t *testing.T, listener net.Listener, address string, life time.Duration) {
	listening, err := listener.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	defer listener.Close()
	var ran, answered atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), replacedFor)
	defer stop()
	var running, calling sync.WaitGroup
	servers, stopServers := context.WithCancel(t.Context())
	for i := range 2 {
		running.Go(func() {
			for servers.Err() == nil {
				serveOnce(t, servers, listening, &ran, life*time.Duration(2+i)/2)
			}
		})
	}
	c, err := client.New(address, client.WithAttempts(16), client.WithTimeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sum := client.Func2[[]int64, []float64, int64](c, "count")
	for range replacedCallers {
		calling.Go(func() {
			for ctx.Err() == nil {
				if callReplaced(t, sum) {
					answered.Add(1)
				}
			}
		})
	}
	calling.Wait()
	stopServers()
	running.Wait()
	t.Logf("%d calls were answered, %d were executed", answered.Load(), ran.Load())
	if ran.Load() != answered.Load() {
		t.Errorf("%d calls were executed, %d answered", ran.Load(), answered.Load())
	}
}

func callReplaced(t *testing.T, sum func(context.Context, []int64, []float64) (int64, error)) bool {
	_, err := sum(context.Background(), make([]int64, replacedValues), make([]float64, replacedValues))
	var failure *status.Error
	if errors.As(err, &failure) && failure.Outcome == status.OutcomeNotExecuted {
		return false // no server was there for all of the attempts
	}
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// serveOnce serves for so long, and then as long as it takes to stop.
func serveOnce(t *testing.T, ctx context.Context, listening *os.File, ran *atomic.Int64, life time.Duration) {
	listener, err := net.FileListener(listening)
	if err != nil {
		t.Error(err)
		return
	}
	if local, ok := listener.(*net.UnixListener); ok {
		local.SetUnlinkOnClose(false)
	}
	s, err := server.New(server.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Error(err)
		return
	}
	s.Register("count", func(a []int64, b []float64) int64 {
		ran.Add(1)
		return int64(len(a) + len(b))
	}, server.Params("a", "b"))
	ctx, stop := context.WithTimeout(ctx, life)
	defer stop()
	if err := s.Serve(ctx, listener); err != nil {
		t.Error(err)
	}
}
