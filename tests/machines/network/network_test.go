package network_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/tests/machines/network"
	"github.com/nearcall/nearcall/tests/processes"
)

// asProgram makes this program one that is killed while it has a network.
const asProgram = "NEARCALL_TEST_NETWORK_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		liveUntilKilled()
	}
	os.Exit(m.Run())
}

const (
	// How long something takes at most that should come at once.
	bound = 10 * time.Second
	// How long nothing comes where nothing should come.
	quiet = 300 * time.Millisecond
)

// pair is a network of two hosts with a connection from the first to the second, which sends back
// what it gets.
type pair struct {
	here, there *network.Host
	conn        net.Conn
	address     string
}

func newPair(t *testing.T, join func(*network.Network, string) (*network.Host, error)) *pair {
	t.Helper()
	n, err := network.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	p := new(pair)
	if p.here, err = join(n, "here"); err == nil {
		p.there, err = join(n, "there")
	}
	if err != nil {
		t.Fatal(err)
	}
	var listener net.Listener
	err = p.there.Do(func() (err error) {
		listener, err = net.Listen("tcp", p.there.Address.String()+":0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go sendBack(listener)
	p.address = listener.Addr().String()
	if p.conn, err = p.dial(bound); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.conn.Close() })
	return p
}

func sendBack(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			io.Copy(conn, conn)
		}()
	}
}

func (p *pair) dial(within time.Duration) (conn net.Conn, err error) {
	err = p.here.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", p.address, within)
		return err
	})
	return conn, err
}

// exchange sends a byte, and waits for its return.
func (p *pair) exchange(within time.Duration) (took time.Duration, err error) {
	begun := time.Now()
	p.conn.SetDeadline(begun.Add(within))
	if _, err = p.conn.Write([]byte{1}); err == nil {
		_, err = p.conn.Read(make([]byte, 1))
	}
	return time.Since(begun), err
}

func (p *pair) mustExchange(t *testing.T, when string) time.Duration {
	t.Helper()
	took, err := p.exchange(bound)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	return took
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func joins() map[string]func(*network.Network, string) (*network.Host, error) {
	return map[string]func(*network.Network, string) (*network.Host, error){
		"near": (*network.Network).Join, "far": (*network.Network).JoinFar,
	}
}

func TestLinksAreCutAndSilenced(t *testing.T) {
	for name, join := range joins() {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, join)
			p.mustExchange(t, "at first")

			must(t, p.here.Cut())
			if _, err := p.dial(bound); !errors.Is(err, syscall.ENETUNREACH) {
				t.Errorf("a host whose link is down connects: %v, want that the network is unreachable", err)
			}
			must(t, p.here.Heal())
			p.mustExchange(t, "after a cut")

			must(t, p.there.Silence())
			if _, err := p.dial(quiet); err == nil || !err.(net.Error).Timeout() {
				t.Errorf("connecting to a host that is silenced: %v, want that nothing is heard", err)
			}
			if _, err := p.exchange(quiet); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a connection to a host that is silenced: %v, want that nothing is heard", err)
			}
			must(t, p.there.Heal())
			conn, err := p.dial(bound)
			must(t, err)
			conn.Close()
			must(t, p.here.Lose(1))
			if _, err := p.dial(quiet); err == nil {
				t.Error("a host that loses all frames connects")
			}
			must(t, p.here.Heal())
		})
	}
}

func TestLinksHaveARate(t *testing.T) {
	for name, join := range joins() {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, join)
			const bits, bytes = 8_000_000, 300_000
			must(t, p.here.Rate(bits))
			begun := time.Now()
			go p.conn.Write(make([]byte, bytes))
			_, err := io.ReadFull(p.conn, make([]byte, bytes))
			must(t, err)
			if took, least := time.Since(begun), time.Second*(bytes-50_000)*8/bits; took < least {
				t.Errorf("%d bytes there and back took %s at %d bits a second, want %s", bytes, took, bits, least)
			}
			must(t, p.here.Rate(0))
		})
	}
}

func TestFarHostsAreDelayedAndHeldUp(t *testing.T) {
	p := newPair(t, (*network.Network).JoinFar)
	p.mustExchange(t, "at first")
	const delay = 30 * time.Millisecond
	must(t, p.there.Delay(delay, delay))
	for range 5 {
		if took := p.mustExchange(t, "with a delay"); took < 2*delay {
			t.Errorf("there and back took %s, want at least %s", took, 2*delay)
		}
	}
	must(t, p.there.Delay(0, 0))
	must(t, p.there.Hold())
	if _, err := p.exchange(quiet); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection to a host that is held up: %v, want that nothing is heard", err)
	}
	must(t, p.there.Heal())
	p.mustExchange(t, "when it goes on")

	near := newPair(t, (*network.Network).Join)
	if near.here.Delay(delay, 0) == nil || near.here.Hold() == nil {
		t.Error("a link that is a cable of the kernel is delayed")
	}
}

// TestClocksAreAhead: programs of hosts have monotonic clocks of their own.
func TestClocksAreAhead(t *testing.T) {
	p := newPair(t, (*network.Network).Join)
	const ahead = 1000 * time.Hour
	command := append(network.Clock(ahead), "cat", "/proc/self/timens_offsets")
	program := exec.Command(command[0], command[1:]...)
	output, err := program.StdoutPipe()
	must(t, err)
	must(t, p.here.Start(program))
	said, err := io.ReadAll(output)
	must(t, errors.Join(err, program.Wait()))
	if fields := strings.Fields(string(said)); len(fields) < 2 || fields[1] != "3600000" {
		t.Errorf("the clock is %q, want 3600000 seconds ahead", said)
	}
}

// liveUntilKilled is the program that has a network when it is killed.
func liveUntilKilled() {
	n, err := network.New()
	var host *network.Host
	if err == nil {
		host, err = n.JoinFar("host")
	}
	child := exec.Command("sleep", "1000")
	if err == nil {
		err = host.Start(child)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", child.Process.Pid))
	fmt.Println(child.Process.Pid, space, err)
	select {}
}

// TestNothingIsLeft kills a program that has a network.
func TestNothingIsLeft(t *testing.T) {
	t.Setenv(asProgram, "1")
	program := exec.Command(os.Args[0])
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := program.StdoutPipe()
	must(t, err)
	must(t, program.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	must(t, err)
	var child int
	var space string
	if _, err := fmt.Sscan(line, &child, &space); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if len(processesIn(space)) == 0 {
		t.Fatalf("no process is in %s", space)
	}
	await := processes.EndOf(t, child)
	program.Process.Kill()
	program.Wait()
	await(bound)
	if left := processesIn(space); len(left) > 0 {
		t.Errorf("threads of a network that was killed: %q", left)
	}
}

// processesIn are the threads in a namespace. Without any, and without a file that names it, the
// kernel has taken it down.
func processesIn(space string) (found []string) {
	// The pattern is a good one.
	threads, _ := filepath.Glob("/proc/[0-9]*/task/*/ns/net")
	for _, thread := range threads {
		if in, err := os.Readlink(thread); err == nil && in == space {
			found = append(found, thread)
		}
	}
	return found
}
