package handoff_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
)

// What is done to whom, and after how many connections.
const (
	clients         = 32
	receivers       = 4 // the last has few descriptors
	fewDescriptors  = 14
	connectionsCI   = 20_000
	killEvery       = 100
	stopEvery       = 2000
	stoppedFor      = 200
	giverKilledEach = 2500
	silentEach      = 50
	slowEach        = 10
	slowMax         = 20 * time.Millisecond
	settleTimeout   = time.Minute
)

// A cast is all processes of a run, and what became of them.
type cast struct {
	t         *testing.T
	listener  *net.TCPListener
	file      *os.File // of the listener, which outlives givers
	ledger    string
	addresses []string

	mu        sync.Mutex
	giver     *processes.Process
	receivers [receivers]*processes.Process
	killed    map[int]bool // process ids
	givers    int          // killed
	stops     int
}

func newCast(t *testing.T) *cast {
	t.Helper()
	c := &cast{t: t, ledger: filepath.Join(t.TempDir(), "ledger"), killed: map[int]bool{}}
	must(t, os.WriteFile(c.ledger, nil, 0o600))
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	must(t, err)
	c.listener = listener.(*net.TCPListener)
	t.Cleanup(func() { _ = listener.Close() })
	c.file, err = c.listener.File()
	must(t, err)
	t.Cleanup(func() { _ = c.file.Close() })
	for i := range c.receivers {
		c.addresses = append(c.addresses, "unix:"+processes.Socket(t)+strconv.Itoa(i))
		c.startReceiver(i)
	}
	c.startGiver()
	return c
}

func (c *cast) startReceiver(i int) {
	command := []string{filepath.Join(programs, "receiver"), c.addresses[i], c.ledger}
	if i == receivers-1 {
		command = append(command, strconv.Itoa(fewDescriptors))
	}
	c.receivers[i] = processes.Start(c.t, nil, command...)
	c.awaitReady(c.receivers[i])
}

func (c *cast) startGiver() {
	c.giver = processes.StartWithFile(c.t, c.file, append([]string{filepath.Join(programs, "giver"), c.ledger}, c.addresses...)...)
	c.awaitReady(c.giver)
}

func (c *cast) awaitReady(p *processes.Process) {
	if !p.Lines.Scan() || !strings.HasPrefix(p.Lines.Text(), "ready") {
		c.t.Errorf("%s did not start: %q", p.Path, p.Lines.Text())
	}
}

// disturb does what is due when so many connections have ended.
func (c *cast) disturb(ended int, random *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ended%killEvery == 0 {
		i := random.IntN(receivers)
		c.killed[c.receivers[i].Process.Pid] = true
		c.receivers[i].Kill()
		c.startReceiver(i)
	}
	if ended%giverKilledEach == 0 {
		c.givers++
		c.giver.Kill()
		c.startGiver()
	}
	switch ended % stopEvery {
	case stopEvery / 2:
		c.stops++
		c.receivers[0].Stop(c.t)
	case stopEvery/2 + stoppedFor:
		c.receivers[0].Continue()
	}
}

// An outcome is what a client saw.
type outcome struct {
	answer string
	silent bool
}

// call connects from an address that no other connection has, so that the ledger can
// name it.
func (c *cast) call(number int, random *rand.Rand) (o outcome, err error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: addressOf(number)}}
	port := strconv.Itoa(c.listener.Addr().(*net.TCPAddr).Port)
	conn, err := dialer.Dial("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return o, err // the listener is open all the time
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return o, err
	}
	o.silent = number%silentEach == 0
	if number%slowEach == 0 {
		time.Sleep(time.Duration(random.Int64N(int64(slowMax))))
	}
	if !o.silent {
		_, _ = io.WriteString(conn, "who are you\n") // of one that was killed
	}
	// Not to its end: that may have to wait for a stopped process, which has a copy in
	// a channel that was ended.
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		return o, fmt.Errorf("nobody serves connection %d, and nobody ends it", number)
	}
	o.answer = answer
	return o, nil
}

// addressOf returns an address of the loopback network, from 127.1.0.0 on.
func addressOf(number int) net.IP {
	return net.IPv4(127, byte(1+number>>16), byte(number>>8), byte(number))
}

// Planted bugs that it finds: a giver that keeps what it has waited for in vain without asking it
// back; a receiver that keeps what it could not confirm, because its channel had ended; and one
// that gives back what it has taken.
func TestEveryConnectionHasOneOwner(t *testing.T) {
	connections := processes.Setting(t, "NEARCALL_HANDOFFS", connectionsCI)
	seed := processes.Seed(t)
	c := newCast(t)
	outcomes := make([]outcome, connections)
	var next, ended atomic.Int64
	var all sync.WaitGroup
	disturbances := make(chan int) // whoever disturbs is not left behind
	for worker := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(worker)))
			for number := int(next.Add(1)) - 1; number < connections; number = int(next.Add(1)) - 1 {
				o, err := c.call(number, random)
				if err != nil {
					t.Error(err)
				}
				outcomes[number] = o
				disturbances <- int(ended.Add(1))
			}
		})
	}
	go func() { all.Wait(); close(disturbances) }()
	random := rand.New(rand.NewPCG(seed, clients))
	for count := range disturbances {
		c.disturb(count, random)
	}
	c.receivers[0].Continue()
	c.judge(outcomes)
	c.expectNothingLeft()
}

// judge compares what clients saw with what the ledger says.
func (c *cast) judge(outcomes []outcome) {
	takers, notes := c.takers()
	lost, silent := 0, 0
	for number, o := range outcomes {
		taken := takers[addressOf(number).String()]
		answered := strings.Count(o.answer, "\n")
		switch {
		case len(taken) > 1 || answered > 1:
			c.t.Errorf("connection %d was taken by %v and answered %q", number, taken, o.answer)
		case answered == 1 && (len(taken) != 1 || o.answer != fmt.Sprintln(taken[0])):
			c.t.Errorf("connection %d was taken by %v and answered %q", number, taken, o.answer)
		case o.silent:
			silent++
		case answered == 0:
			lost++
			c.expectKilled(number, taken)
		}
	}
	c.t.Logf("%d connections: %d silent, %d lost with the process that owned them; %d receivers and %d givers killed, %d stops, %d refused for want of descriptors, %d asked back in vain",
		len(outcomes), silent, lost, len(c.killed), c.givers, c.stops, notes["refused"], notes["ended"])
	if len(c.killed) == 0 || c.givers == 0 || c.stops == 0 || notes["refused"] == 0 || notes["ended"] == 0 {
		c.t.Error("something that is to be survived did not happen")
	}
	owners := len(c.killed) + c.givers
	if lost > owners*clients {
		c.t.Errorf("%d connections lost with %d owners, of %d at a time", lost, owners, clients)
	}
}

// expectKilled judges a connection without an answer: who took it was killed. Where
// the ledger has nobody, it was killed before it could write, or it was the giver.
func (c *cast) expectKilled(number int, taken []int) {
	if len(taken) == 1 && !c.killed[taken[0]] {
		c.t.Errorf("connection %d was taken by process %d, which lives and did not answer", number, taken[0])
	}
	if len(taken) == 0 && len(c.killed)+c.givers == 0 {
		c.t.Errorf("connection %d was lost, and nobody was killed", number)
	}
}

// takers reads the ledger: who took the connection from each address, and how often givers
// noted what. Nobody is to break the protocol.
func (c *cast) takers() (takers map[string][]int, notes map[string]int) {
	file, err := os.Open(c.ledger)
	must(c.t, err)
	defer func() { _ = file.Close() }()
	takers, notes = map[string][]int{}, map[string]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		if word == "breach" {
			c.t.Error(rest)
		}
		if word != "taken" {
			notes[word]++
			continue
		}
		var client string
		var process int
		if _, err := fmt.Sscanf(lines.Text(), "taken %s %d", &client, &process); err != nil {
			c.t.Fatalf("the ledger says %q: %v", lines.Text(), err)
		}
		takers[client] = append(takers[client], process)
	}
	return takers, notes
}

// expectNothingLeft expects that no process keeps a descriptor of what has ended.
func (c *cast) expectNothingLeft() {
	fresh := newCast(c.t)
	for i, p := range append(c.receivers[:], c.giver) {
		other := append(fresh.receivers[:], fresh.giver)[i]
		fresh.warm()
		want := other.Descriptors(c.t)
		processes.WaitFor(c.t, fmt.Sprintf("process %d of the cast to have at most %d descriptors", i, want), settleTimeout,
			func() bool { return p.Descriptors(c.t) <= want })
	}
}

// warm makes the giver open a channel to every receiver.
func (c *cast) warm() {
	random := rand.New(rand.NewPCG(0, 0))
	for number := range 4 * receivers {
		if _, err := c.call(number+1, random); err != nil {
			c.t.Error(err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
