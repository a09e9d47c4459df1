package server_test

import (
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A connection for each call is common in languages without a library. What the process
// allocates for one is most of what the garbage collector has to do then.
func TestAShortConnectionAllocatesLittle(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector lets pools forget")
	}
	const rounds, connections, bytesMost = 20, 100, 4500
	s := newServer(t)
	register(t, s, "echo", func(data []byte) []byte { return data })
	path := strings.TrimPrefix(start(t, s), "unix:")
	least := uint64(math.MaxUint64)
	// A busy machine makes a function seem slow, and collects what pools hold.
	for range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range connections {
			callOnce(t, path)
		}
		runtime.ReadMemStats(&after)
		least = min(least, (after.TotalAlloc-before.TotalAlloc)/connections)
	}
	if least > bytesMost {
		t.Errorf("a connection allocates %d bytes, more than %d", least, bytesMost)
	}
	t.Logf("a connection allocates %d bytes", least)
}

// callOnce connects, calls once by the simple protocol and closes, and allocates little itself.
func callOnce(t *testing.T, path string) {
	t.Helper()
	var room [256]byte
	body := `{"f":"echo","a":["` + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=" + `"]}`
	message := append(binary.BigEndian.AppendUint32(room[:0], uint32(len(body))), body...)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	n := 0
	if err = unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err == nil {
		_, err = unix.Write(fd, message)
	}
	if err == nil {
		n, err = unix.Read(fd, room[:])
	}
	if err != nil || !strings.Contains(string(room[:n]), `"ok":true`) {
		t.Fatalf("the answer is %q, %v", room[:n], err)
	}
}
