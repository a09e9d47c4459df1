package resident_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/request"
	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// silent connects and says nothing.
func silent(t *testing.T, path string, count int) []net.Conn {
	t.Helper()
	var conns []net.Conn
	for range count {
		conn, err := net.Dial("unix", placeOf(t, path).Socket())
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		conns = append(conns, conn)
	}
	return conns
}

// Clients that say nothing, or not enough, keep no worker; one that is late is served.
func TestSilenceIsForNobody(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		run(t, testlauncher.Launch{Program: path})
		late := silent(t, path, 1)[0].(*net.UnixConn)
		began := time.Now()
		for i, conn := range silent(t, path, 40) {
			if i%2 == 0 {
				_, err := conn.Write(statusRequest(t)[:20])
				must(t, err)
			}
		}
		run(t, testlauncher.Launch{Program: path})
		if took := time.Since(began); took > 10*wire.HelloTimeoutMs*time.Millisecond {
			t.Errorf("a run takes %v", took)
		}
		must(t, testlauncher.Launch{Program: path}.Send(late))
		frame, err := channel.ReadFrame(late)
		if err != nil || frame.Type != request.Running {
			t.Errorf("who is late is answered %+v, %v", frame, err)
		}
	})
}

// Nor do those that send a header and nothing of what it announces.
func TestHeadersAlone(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		run(t, testlauncher.Launch{Program: path})
		for _, announced := range []uint32{100, 8 << 20} {
			began := time.Now()
			for _, conn := range silent(t, path, 12) {
				header := statusRequest(t)[:request.HeaderBytes]
				binary.LittleEndian.PutUint32(header[8:], announced)
				binary.LittleEndian.PutUint16(header[14:], uint16(request.Run))
				binary.LittleEndian.PutUint32(header[28:], 1)
				_, err := conn.Write(header)
				must(t, err)
			}
			run(t, testlauncher.Launch{Program: path})
			if took := time.Since(began); took > 3*wire.HelloTimeoutMs*time.Millisecond {
				t.Errorf("a run takes %v where %d bytes were announced", took, announced)
			}
		}
	})
}

// Who goes away in the midst of a header is not waited for.
func TestHalfHeader(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		run(t, testlauncher.Launch{Program: path})
		began := time.Now()
		for _, conn := range silent(t, path, 4) {
			_, err := conn.Write(statusRequest(t)[:20])
			must(t, errors.Join(err, conn.(*net.UnixConn).CloseWrite()))
			must(t, conn.SetReadDeadline(time.Now().Add(patience)))
			if _, err := conn.Read(make([]byte, 1)); err != io.EOF && !isReset(err) {
				t.Errorf("it was not ended: %v", err)
			}
		}
		if took := time.Since(began); took > 3*wire.HelloTimeoutMs*time.Millisecond {
			t.Errorf("their ends were seen after %v", took)
		}
	})
}

// A resident leaves though the last of its backlog brings no run.
func TestLeavesBehindSilence(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		run(t, testlauncher.Launch{Program: path})
		pid := status(t, path).ProcessID
		silent(t, path, 9)
		must(t, unix.Kill(pid, unix.SIGTERM))
		awaitEnd(t, pid)
	})
}

// Workers of a serial resident that are killed keep nobody waiting, and leave nothing
// behind for which it would stay.
func TestSerialWorkersKilled(t *testing.T) {
	path := program(t, "serial")
	run(t, testlauncher.Launch{Program: path})
	pid := status(t, path).ProcessID
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(15 * time.Millisecond):
				killChildren(pid)
			}
		}
	}()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				_, _ = testlauncher.Launch{Program: path}.Run() // killed, or with nothing done
			}
		})
	}
	go func() { group.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("a launcher waits for ever")
	}
	close(stop)
	_ = unix.Kill(pid, unix.SIGTERM)
	awaitEnd(t, pid)
}

// killChildren is for a process that may be gone.
func killChildren(pid int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, number := range strings.Fields(string(text)) {
			if worker, err := strconv.Atoi(number); err == nil {
				_ = unix.Kill(worker, unix.SIGKILL)
			}
		}
	}
}
