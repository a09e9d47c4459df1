package eventloop_test

import (
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport/eventloop"
	"github.com/nearcall/nearcall/internal/transport/tcp"
)

// holdings are what a process has that an engine must give back.
type holdings struct{ goroutines, descriptors int }

func held(t *testing.T) holdings {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return holdings{runtime.NumGoroutine(), len(list)}
}

// wantNoMore waits until the process has no more than before: goroutines that have
// been told to end take a moment.
func wantNoMore(t *testing.T, before holdings) {
	t.Helper()
	for end := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		now := held(t)
		if now.goroutines <= before.goroutines && now.descriptors <= before.descriptors {
			return
		}
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%+v, before %+v\n%s", now, before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// warmUp lets netpoll start what stays for the life of the process.
func warmUp(t *testing.T) {
	t.Helper()
	made, err := eventloop.Engine{}.Open(tcp.Transport{})
	if err != nil {
		t.Fatal(err)
	}
	made.Close()
}

func TestCloseGivesEverythingBack(t *testing.T) {
	warmUp(t)
	before := held(t)
	for range 100 {
		made, err := eventloop.Engine{}.Open(tcp.Transport{})
		if err != nil {
			t.Fatal(err)
		}
		if err := made.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantNoMore(t, before)
}

// TestCloseEndsConnections: connections that are left are closed, and resumed where
// they were parked, while others are used.
func TestCloseEndsConnections(t *testing.T) {
	warmUp(t)
	before := held(t)
	for range 20 {
		closeWithConnections(t)
	}
	wantNoMore(t, before)
}

func closeWithConnections(t *testing.T) {
	t.Helper()
	made, err := eventloop.Engine{}.Open(tcp.Transport{})
	if err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	for i := range 10 {
		p := newPair(t, made, tcpAddress)
		conn, peer := p.conn, p.peer
		defer peer.Close()
		ended.Add(1)
		switch i % 3 {
		case 0:
			go func() {
				defer ended.Done()
				conn.Read(make([]byte, 1))
			}()
		case 1:
			if !conn.Park(ended.Done) {
				t.Fatal("not parked")
			}
			go conn.Close()
		case 2:
			go func() {
				defer ended.Done()
				// It waits for room, since nobody reads.
				if _, err := conn.Write(make([]byte, 64<<20)); !errors.Is(err, net.ErrClosed) {
					t.Errorf("Write: %v, want net.ErrClosed", err)
				}
			}()
			if _, err := peer.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := made.Close(); err != nil {
		t.Error(err)
	}
	ended.Wait()
}

// TestWithoutDescriptors: an engine that cannot start says so and keeps nothing.
func TestWithoutDescriptors(t *testing.T) {
	warmUp(t)
	before := held(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	lower := limit
	lower.Cur = 3 // those there are stay
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	made, err := eventloop.Engine{}.Open(tcp.Transport{})
	if again := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); again != nil {
		t.Fatal(again)
	}
	if err == nil {
		made.Close()
		t.Error("opened without descriptors")
	}
	wantNoMore(t, before)
}
