package faults_test

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

const (
	// Calls over connections that are cut have time to ask what became of them, on a busy machine
	// too.
	cutTimeoutMs = 10_000
	// A connection is cut after up to 2^cutBitsMax bytes. Half of all cuts are within the first
	// kilobyte: hello and welcome, and the questions about calls of the connection before.
	cutBitsMin, cutBitsMax = 5, 15
	// Over TLS a connection begins with some kilobytes of the handshake.
	sealedCutBitsMin, sealedCutBitsMax = 8, 17
	// How long a server lives that is killed beside, in milliseconds.
	cutServerLifeMs = 500
	// How many calls each caller makes at a time, at most.
	callsAtATime = 4
)

// A relay carries the bytes of TCP connections to a server, and cuts each of them at a byte that
// it has drawn.
type relay struct {
	run      *faultRun
	listener net.Listener
	server   atomic.Pointer[string]
	// certificates is the folder of those for TLS, "" for plain TCP.
	certificates string
	cuts         atomic.Int64
	carrying     sync.WaitGroup
}

// address is what callers call.
func (l *relay) address() string {
	at := l.listener.Addr().String()
	if l.certificates == "" {
		return "tcp:" + at
	}
	return "tls:" + at + "?ca=" + filepath.Join(l.certificates, "ca.pem")
}

// drawBytes draws after how many bytes a direction is cut.
func (l *relay) drawBytes() int64 {
	least, most := cutBitsMin, cutBitsMax
	if l.certificates != "" {
		least, most = sealedCutBitsMin, sealedCutBitsMax
	}
	return int64(l.run.number(1 << (least + l.run.number(most-least+1))))
}

func newRelay(r *faultRun) *relay {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	made := &relay{run: r, listener: listener}
	made.server.Store(new(string))
	made.carrying.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			made.carrying.Go(func() { made.carry(conn.(*net.TCPConn)) })
		}
	})
	return made
}

// close ends the relay, whose connections end by themselves.
func (l *relay) close() {
	l.listener.Close()
	l.carrying.Wait()
}

func (l *relay) carry(caller *net.TCPConn) {
	defer caller.Close()
	conn, err := net.Dial("tcp", *l.server.Load())
	if err != nil {
		return // between two servers
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	var both sync.WaitGroup
	pass := func(to, from *net.TCPConn) {
		if _, err := io.CopyN(to, from, l.drawBytes()); err == nil {
			l.cuts.Add(1)
		}
		if l.run.number(2) == 0 {
			// Reset: what lies in the kernel is lost as well.
			caller.SetLinger(0)
			server.SetLinger(0)
		}
		caller.Close()
		server.Close()
	}
	both.Go(func() { pass(server, caller) })
	both.Go(func() { pass(caller, server) })
	both.Wait()
}

// startRemoteServer starts a server behind the relay.
func (r *faultRun) startRemoteServer() *processes.Process {
	network, command := "tcp:", []string{built.server, "-ledger", r.ledgerPath}
	if folder := r.relay.certificates; folder != "" {
		network, command = "tls:", append(command, "-tls-cert", filepath.Join(folder, "server.pem"), "-tls-key", filepath.Join(folder, "server.key"))
	}
	server := processes.Start(r.t, nil, append(command, "-address", network+"127.0.0.1:0")...)
	if !processes.Within(r.t, "a server to start", time.Minute, server.Lines.Scan) {
		r.t.Fatal("the server did not start")
	}
	address, found := strings.CutPrefix(server.Lines.Text(), "ready "+network)
	if !found {
		r.t.Fatalf("the server did not start: %q", server.Lines.Text())
	}
	r.relay.server.Store(&address)
	return server
}

// TestOutcomesAreKnownWhenConnectionsAreCut cuts connections at any byte. As long as the server
// lives it can say what became of each call: no outcome is unknown, and none is wrong. If servers
// are killed as well, only calls that were with one of these may be unknown.
func TestOutcomesAreKnownWhenConnectionsAreCut(t *testing.T) {
	calls := processes.Setting(t, "NEARCALL_LEDGER_CALLS", defaultLedgerCall)
	for name, caller := range map[string]string{"C": built.ledger, "Go": built.caller} {
		t.Run(name+", server lives", func(t *testing.T) { cutConnections(t, caller, calls, false, false) })
		t.Run(name+", servers are killed", func(t *testing.T) { cutConnections(t, caller, calls, true, false) })
		t.Run(name+", TLS, server lives", func(t *testing.T) { cutConnections(t, caller, calls, false, true) })
	}
}

// TestOutcomesAreKnownToEventLoops does the same to callers that begin several calls at a time and
// wait for none of them.
func TestOutcomesAreKnownToEventLoops(t *testing.T) {
	calls := processes.Setting(t, "NEARCALL_LEDGER_CALLS", defaultLedgerCall/4)
	for name, caller := range map[string]string{"C": built.begun, "Python": built.async} {
		t.Run(name+", server lives", func(t *testing.T) { cutConnections(t, caller, calls, false, false) })
		t.Run(name+", servers are killed", func(t *testing.T) { cutConnections(t, caller, calls, true, false) })
	}
	t.Run("C, TLS, server lives", func(t *testing.T) { cutConnections(t, built.begun, calls, false, true) })
}

func cutConnections(t *testing.T, caller string, calls int, killed, sealed bool) {
	r := newFaultRun(t, caller, false)
	r.wanted = int64(calls)
	r.timeoutMs, r.killEvery = cutTimeoutMs, 1<<30
	r.relay = newRelay(r)
	if sealed {
		r.relay.certificates = t.TempDir()
		if err := authority.Write(r.relay.certificates); err != nil {
			t.Fatal(err)
		}
	}
	r.tormentByCuts(killed)
	count := r.check()
	unknown := count.byOutcome["UNAVAILABLE, unknown"] + count.byOutcome["DEADLINE_EXCEEDED, unknown"]
	if most := int(r.serverKills.Load()) * callersAtATime * callsAtATime; unknown > most {
		t.Errorf("%d outcomes are unknown, where %d servers were killed with %d calls at most", unknown, r.serverKills.Load(), most)
	}
}

// tormentByCuts is torment over the relay.
func (r *faultRun) tormentByCuts(killed bool) {
	var servers sync.WaitGroup
	stop := make(chan struct{})
	server := r.startRemoteServer()
	servers.Go(func() {
		for killed && r.pause(stop, cutServerLifeMs) {
			server.Kill()
			r.serverKills.Add(1)
			server = r.startRemoteServer()
		}
	})
	var callers sync.WaitGroup
	for range callersAtATime {
		callers.Go(func() {
			for !r.isEnough() {
				r.runCaller()
			}
		})
	}
	callers.Wait()
	close(stop)
	servers.Wait()
	r.relay.close()
	server.Kill()
}
