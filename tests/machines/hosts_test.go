package machines_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/tests/machines/network"
	"github.com/nearcall/nearcall/tests/processes"
	"github.com/nearcall/nearcall/tests/processes/ledger"
)

const (
	port = "7000"
	// Monotonic clocks of hosts differ by up to so many seconds.
	clocksApart  = 1_000_000
	startTimeout = time.Minute
	machinesMax  = 3
)

// A machine is a host with a server, and with a ledger of what that has executed.
type machine struct {
	*network.Host
	ledgerPath string
	ledger     *ledger.Ledger
	server     *processes.Process // nil: none
	gateway    *processes.Process // nil: none
	// serverPath and gatewayPath are where they listen, if there is a gateway.
	serverPath, gatewayPath string
	// clock is how far the monotonic clock of this host is ahead.
	clock time.Duration
	// executed counts what its server has executed.
	executed atomic.Int64
	// called is when each machine last had a call executed by this one, by the machine's number, in
	// ns since the run began.
	called [machinesMax]atomic.Int64
	number int
}

func (r *run) addMachine(name string) {
	r.t.Helper()
	host, err := r.network.Join(name)
	if err != nil {
		r.t.Fatal(err)
	}
	folder := r.t.TempDir()
	m := &machine{Host: host, number: len(r.machines), clock: r.drawClock(), ledgerPath: filepath.Join(folder, "ledger"), serverPath: filepath.Join(folder, "s"), gatewayPath: filepath.Join(folder, "g")}
	m.ledger = ledger.Open(r.t, m.ledgerPath, func(key uint64) {
		r.noteExecuted(m, key)
	})
	r.machines = append(r.machines, m)
}

// noteExecuted is called with the key of each call that a server has executed.
func (r *run) noteExecuted(by *machine, key uint64) {
	if c := r.callerOf(key); c == nil {
		r.t.Errorf("host %s has executed a call with key %d, which nobody was given", by.Name, key)
	} else {
		by.called[c.on.number].Store(int64(r.now()))
		by.executed.Add(1)
	}
}

func (r *run) drawClock() time.Duration { return time.Duration(r.number(clocksApart)) * time.Second }

// startQuietly is start for a program whose log nobody reads as long as all is well.
func (r *run) startQuietly(m *machine, command ...string) *processes.Process {
	r.t.Helper()
	return r.start(m, append([]string{"sh", "-c", `exec "$@" 2>/dev/null`, "sh"}, command...)...)
}

// start starts a program on a machine, with the monotonic clock of that machine. Calls over TLS rely
// on no common clock, not even within a host, so without gateways each program has another one.
func (r *run) start(m *machine, command ...string) *processes.Process {
	r.t.Helper()
	ahead := m.clock
	if !r.gateways {
		ahead = r.drawClock()
	}
	return processes.StartBy(r.t, m.Start, append(network.Clock(ahead), command...)...)
}

func (r *run) startServer(m *machine) {
	r.t.Helper()
	address := []string{"-address", "unix:" + m.serverPath}
	if !r.gateways {
		address = []string{"-address", "tls:0.0.0.0:" + port,
			"-tls-cert", filepath.Join(built.certificates, "server.pem"), "-tls-key", filepath.Join(built.certificates, "server.key")}
	}
	m.server = r.start(m, append([]string{built.server, "-ledger", m.ledgerPath}, address...)...)
	if !processes.Within(r.t, "a server to start", startTimeout, m.server.Lines.Scan) || !strings.HasPrefix(m.server.Lines.Text(), "ready ") {
		r.t.Fatalf("the server on %s did not start: %q", m.Name, m.server.Lines.Text())
	}
}

// startGateway starts a gateway that serves the functions of others and exports those of its own
// host, if there are any. It finds the other gateways by a cluster of their engines.
func (r *run) startGateway(m *machine) {
	r.t.Helper()
	command := []string{built.command, "gateway", "--host", m.Name, "--plain", "--listen", "unix:" + m.gatewayPath, "--cluster-listen", m.Address.String() + ":6222"}
	for _, other := range r.machines {
		if other != m {
			command = append(command, "--route", "nats://"+other.Address.String()+":6222")
		}
	}
	if m.server != nil {
		command = append(command, "--export", "test=unix:"+m.serverPath)
	}
	m.gateway = r.startQuietly(m, command...)
}

// awaitFunction waits until a gateway knows the function that is called.
func (r *run) awaitFunction(m *machine) {
	r.t.Helper()
	c, err := client.New("unix:" + m.gatewayPath)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	processes.WaitFor(r.t, "the gateway of "+m.Name+" to know what others serve", startTimeout, func() bool {
		_, err := c.Describe(r.t.Context(), "ledger")
		return err == nil
	})
}

// parameters are those of every address: the certificate is for this name.
func parameters() string {
	return "?name=server.example.org&ca=" + filepath.Join(built.certificates, "ca.pem")
}

// A callerKind is a program and the address that it calls; "": that of one machine, drawn anew.
type callerKind struct{ program, address string }

// kinds are the callers that are kept on a machine: to all as equals, to its own first, and to one.
func (r *run) kinds(on *machine) []callerKind {
	if r.gateways {
		return []callerKind{{built.goCaller, "unix:" + on.gatewayPath}, {built.caller, "unix:" + on.gatewayPath}}
	}
	var all, others []string
	for _, m := range r.machines {
		place := m.Address.String() + ":" + port
		all = append(all, place)
		if m != on {
			others = append(others, place)
		}
	}
	equals := "tls:" + strings.Join(all, ",") + parameters()
	nearest := "tls:127.0.0.1:" + port + parameters() + " | tls:" + strings.Join(others, ",") + parameters()
	return []callerKind{{built.goCaller, equals}, {built.goCaller, nearest}, {built.caller, equals}, {built.caller, nearest}, {built.caller, ""}}
}

// addressOf is the address of one machine alone.
func addressOf(m *machine) string {
	return fmt.Sprintf("tls:%s:%s%s&silence=%d", m.Address, port, parameters(), silence/time.Millisecond)
}

// A caller is one process that calls. It has keys of its own.
type caller struct {
	on    *machine
	to    *machine // the only machine that it can call; nil: all of them
	kind  callerKind
	first uint64
	begun time.Duration // its first call, since the run began; 0 before that
	// found counts calls by which it found out that a host is away.
	found map[*fault]int
}

func (r *run) startCaller(kind callerKind, c *caller) *processes.Process {
	return r.start(c.on, "env", "NEARCALL_PAUSE_US="+strconv.Itoa(r.pauseUs), kind.program, kind.address,
		strconv.FormatUint(c.first, 10), strconv.Itoa(callsPerCaller), strconv.Itoa(timeoutMs), strconv.Itoa(slowEvery))
}

// newTestNetwork makes a network that ends with the test.
func newTestNetwork(t *testing.T) *network.Network {
	t.Helper()
	n, err := network.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}
