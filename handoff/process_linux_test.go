package handoff_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/handoff"
)

// roleVariable makes the test program another process than the test's: it says
// what to be, and with what.
const roleVariable = "NEARCALL_HANDOFF_TEST_ROLE"

var roles = map[string]func(argument string) error{
	"idle":     listenIdle,
	"serve":    serveWord,
	"crowded":  serveCrowded,
	"give":     giveAndWait,
	"download": serveDownload,
}

func TestMain(m *testing.M) {
	role, argument, found := strings.Cut(os.Getenv(roleVariable), " ")
	if !found {
		os.Exit(m.Run())
	}
	if err := roles[role](argument); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// A process plays a role until the test ends.
type process struct {
	*exec.Cmd
	input io.Writer
	lines *bufio.Scanner
}

func start(t *testing.T, role, argument string, around ...string) *process {
	t.Helper()
	command := append(around, os.Args[0])
	p := &process{Cmd: exec.Command(command[0], command[1:]...)}
	p.Env = append(os.Environ(), roleVariable+"="+role+" "+argument)
	p.Stderr = os.Stderr
	input, err := p.StdinPipe()
	must(t, err)
	p.input = input
	output, err := p.StdoutPipe()
	must(t, err)
	p.lines = bufio.NewScanner(output)
	must(t, p.Start())
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	p.expect(t, "ready")
	return p
}

func (p *process) expect(t *testing.T, line string) {
	t.Helper()
	if !p.lines.Scan() || p.lines.Text() != line {
		t.Fatalf("the process says %q, %v; not %q", p.lines.Text(), p.lines.Err(), line)
	}
}

// stop returns when every thread of the process has stopped.
func (p *process) stop(t *testing.T) {
	t.Helper()
	must(t, p.Process.Signal(syscall.SIGSTOP))
	var status unix.WaitStatus
	_, err := unix.Wait4(p.Process.Pid, &status, unix.WUNTRACED, nil)
	must(t, err)
	if !status.Stopped() {
		t.Fatalf("the process did not stop: %v", status)
	}
}

// await ends a role with its parent.
func await() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func listenIdle(address string) error {
	l, err := handoff.Listen(address)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	fmt.Println("ready")
	return await()
}

// servedWord is what connections get from the process that owns them.
const servedWord = "from the receiver"

func serveWord(address string) error {
	l, err := handoff.Listen(address)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return answerAll(l)
}

// serveCrowded serves and has only some descriptors left, until a line comes on its
// standard input.
func serveCrowded(arguments string) error {
	left, address, _ := strings.Cut(arguments, " ")
	l, err := handoff.Listen(address)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan() // the channel is open
	limit := unix.Rlimit{Cur: 100, Max: 100}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	var full []int
	for {
		fd, err := unix.Dup(0)
		if err != nil {
			break
		}
		full = append(full, fd)
	}
	for range len(left) {
		_ = unix.Close(full[len(full)-1])
		full = full[:len(full)-1]
	}
	fmt.Println("full")
	go func() {
		lines.Scan()
		for _, fd := range full {
			_ = unix.Close(fd)
		}
		fmt.Println("room")
	}()
	return answerAll(l)
}

// answerAll returns only when it cannot go on.
func answerAll(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_, err = io.WriteString(c, servedWord)
		if err := errors.Join(err, c.Close()); err != nil {
			return err
		}
	}
}

// giveAndWait gives the connection to a TCP address that it dials.
func giveAndWait(arguments string) error {
	address, tcp, _ := strings.Cut(arguments, " ")
	p, err := handoff.Dial(context.Background(), address)
	if err != nil {
		return err
	}
	c, err := net.Dial("tcp", tcp)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	err = p.SendConn(context.Background(), c, handoff.Meta{Name: "of the killed"})
	fmt.Println("given", err)
	return await()
}

// downloadBytes is more than the sockets between two processes hold.
const downloadBytes = 8 << 20

func serveDownload(address string) error {
	l, err := handoff.Listen(address)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "download")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if err := file.Truncate(downloadBytes); err != nil {
		return err
	}
	fmt.Println("ready")
	c, err := l.Accept()
	if err != nil {
		return err
	}
	_, err = io.CopyN(c, file, downloadBytes) // as net/http does: ReadFrom, sendfile
	if err != nil {
		return err
	}
	back, err := net.Dial("tcp", c.RemoteAddr().String())
	if err != nil {
		return err
	}
	_, err = io.Copy(back, c) // WriteTo, splice
	return errors.Join(err, back.Close(), c.Close())
}

// expectOwner checks that this process alone serves a connection. To close it might
// not be enough, where a stopped process has a copy in its channel.
func expectOwner(t *testing.T, client io.Reader, served interface {
	io.WriteCloser
	CloseWrite() error
}) {
	t.Helper()
	_, err := io.WriteString(served, "mine")
	must(t, errors.Join(err, served.CloseWrite(), served.Close()))
	if got, err := io.ReadAll(client); string(got) != "mine" || err != nil {
		t.Errorf("the client read %q, %v", got, err)
	}
}

func socketIn(t *testing.T) string { return "unix:" + t.TempDir() + "/s" }

func TestReceiverIsKilledBeforeItTook(t *testing.T) {
	address := socketIn(t)
	receiver := start(t, "idle", address)
	p := dial(t, address)
	client, served := tcpPair(t)
	given := make(chan error, 1)
	go func() { given <- p.SendConn(testContext(t), served, handoff.Meta{Prefix: []byte("read")}) }()
	for p.Pending() == 0 {
		time.Sleep(time.Millisecond)
	}
	must(t, p.Ping(testContext(t))) // it has arrived
	must(t, receiver.Process.Kill())
	const told = "the peer's process ended, or closed the channel"
	if err := <-given; !errors.Is(err, net.ErrClosed) || !strings.HasSuffix(err.Error(), "the channel ended before it was taken: "+told) {
		t.Errorf("given to one that was killed: %v", err)
	}
	<-p.Done()
	if err := p.Err(); !errors.Is(err, net.ErrClosed) || err.Error() != told {
		t.Errorf("the channel to one that was killed ended by: %v", err)
	}
	expectOwner(t, client, served)
}

// A receiver that is stopped cannot answer: the giver knows all the same whose each
// connection is, in time, also behind a frame that does not fit into the socket.
func TestReceiverIsStopped(t *testing.T) {
	address := socketIn(t)
	receiver := start(t, "serve", address)
	p := dial(t, address)
	receiver.stop(t)
	patient := testContext(t)
	give := func(ctx context.Context, givers *sync.WaitGroup) {
		client, served := tcpPair(t)
		givers.Go(func() {
			begin := time.Now()
			if err := p.SendConn(ctx, served, handoff.Meta{Prefix: make([]byte, 60<<10)}); err == nil {
				t.Error("a stopped process took a connection")
			}
			if took := time.Since(begin); took > testTimeout/2 {
				t.Errorf("it took %v", took)
			}
			expectOwner(t, client, served)
		})
	}
	var patientGivers, hastyGivers sync.WaitGroup
	for range 10 {
		give(patient, &patientGivers)
	}
	for p.Pending() < 10 {
		time.Sleep(time.Millisecond)
	}
	hasty, cancel := context.WithTimeout(patient, 50*time.Millisecond)
	defer cancel()
	for range 10 {
		give(hasty, &hastyGivers)
	}
	hastyGivers.Wait()
	must(t, p.Close())
	patientGivers.Wait()
	must(t, receiver.Process.Signal(syscall.SIGCONT))
	expectServed(t, dial(t, address)) // what is left in the old channel is nobody's
}

// Nothing but the end of the channel tells whose a connection is that a stopped
// process was given.
func TestStoppedReceiverLosesItsChannel(t *testing.T) {
	address := socketIn(t)
	receiver := start(t, "idle", address)
	p := dial(t, address)
	receiver.stop(t)
	client, served := tcpPair(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := p.SendConn(ctx, served, handoff.Meta{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given to one that is stopped: %v", err)
	}
	select {
	case <-p.Ended():
	default:
		t.Error("the channel is open, and the receiver may take the connection from it")
	}
	expectOwner(t, client, served)
}

func expectServed(t *testing.T, p *handoff.Peer) {
	t.Helper()
	client, served := tcpPair(t)
	must(t, p.SendConn(testContext(t), served, handoff.Meta{}))
	if got, err := io.ReadAll(client); string(got) != servedWord || err != nil {
		t.Errorf("the client read %q, %v", got, err)
	}
}

// Receivers are killed at any moment: every connection is served by the process
// that SendConn says, and by no other.
func TestReceiversAreKilledAtAnyMoment(t *testing.T) {
	const receivers, givers = 20, 4
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var taken, kept atomic.Int64
	for range receivers {
		address := socketIn(t)
		receiver := start(t, "serve", address)
		p := dial(t, address)
		var all sync.WaitGroup
		for range givers {
			all.Go(func() {
				for p.Err() == nil {
					giveToTheDoomed(t, p, &taken, &kept)
				}
			})
		}
		time.Sleep(time.Duration(random.IntN(20_000)) * time.Microsecond)
		must(t, receiver.Process.Kill())
		all.Wait()
	}
	t.Logf("%d taken, %d kept", taken.Load(), kept.Load())
	if taken.Load() == 0 || kept.Load() == 0 {
		t.Error("nothing was killed in time")
	}
}

func giveToTheDoomed(t *testing.T, p *handoff.Peer, taken, kept *atomic.Int64) {
	client, served := tcpPair(t)
	defer func() { _ = client.Close() }()
	if err := p.SendConn(testContext(t), served, handoff.Meta{}); err != nil {
		kept.Add(1)
		expectOwner(t, client, served)
		return
	}
	taken.Add(1)
	// It may have been killed before it served.
	if got, _ := io.ReadAll(client); !strings.HasPrefix(servedWord, string(got)) {
		t.Errorf("the client read %q", got)
	}
}

// It lacks one for what arrives, or one for what it makes of it.
func TestReceiverLacksDescriptors(t *testing.T) {
	for name, left := range map[string]string{"none is left": "", "one is left": "|"} {
		t.Run(name, func(t *testing.T) {
			address := socketIn(t)
			receiver := start(t, "crowded", left+" "+address)
			p := dial(t, address)
			_, err := io.WriteString(receiver.input, "fill\n")
			must(t, err)
			receiver.expect(t, "full")
			client, served := tcpPair(t)
			err = p.SendConn(testContext(t), served, handoff.Meta{Prefix: []byte("x")})
			var failure *handoff.Error
			if !errors.Is(err, handoff.ErrNoDescriptor) || !errors.Is(err, handoff.ErrRefused) || !errors.As(err, &failure) || !failure.Temporary() {
				t.Errorf("given to one without descriptors: %v", err)
			}
			expectOwner(t, client, served)
			_, err = io.WriteString(receiver.input, "release\n")
			must(t, err)
			receiver.expect(t, "room")
			expectServed(t, p)
		})
	}
}

// What a giver gave and nobody took dies with it.
func TestGiverIsKilled(t *testing.T) {
	l, address := listen(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = tcp.Close() }()
	giver := start(t, "give", address+" "+tcp.Addr().String())
	client, err := tcp.Accept()
	must(t, err)
	defer func() { _ = client.Close() }()
	must(t, client.SetDeadline(time.Now().Add(testTimeout)))
	must(t, giver.Process.Kill())
	if n, err := client.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it lives on: %d, %v", n, err)
	}
	conns := accepted(l)
	_, served := tcpPair(t)
	must(t, dial(t, address).SendConn(testContext(t), served, handoff.Meta{Name: "of the living"}))
	if c := <-conns; c.Meta().Name != "of the living" {
		t.Errorf("accepted a connection %s", c.Meta().Name)
	}
}

func TestGiverIsKilledAfterItWasTaken(t *testing.T) {
	l, address := listen(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = tcp.Close() }()
	conns := accepted(l)
	giver := start(t, "give", address+" "+tcp.Addr().String())
	client, err := tcp.Accept()
	must(t, err)
	c := <-conns
	giver.expect(t, "given <nil>")
	must(t, giver.Process.Kill())
	expectOwner(t, client, c)
}

// The kernel copies between file and connection, and between connections.
func TestSendfileAndSplice(t *testing.T) {
	address := socketIn(t)
	trace := t.TempDir() + "/trace"
	receiver := start(t, "download", address, "strace", "-f", "-o", trace, "-e", "trace=sendfile,splice", "--")
	p := dial(t, address)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = tcp.Close() }()
	client, served := tcpPair(t)
	must(t, p.SendConn(testContext(t), served, handoff.Meta{Remote: tcp.Addr()}))
	_, err = io.CopyN(io.Discard, client, downloadBytes)
	must(t, err)
	_, err = client.Write(make([]byte, downloadBytes/16))
	must(t, errors.Join(err, client.CloseWrite()))
	back, err := tcp.Accept()
	must(t, err)
	defer func() { _ = back.Close() }()
	if n, err := io.Copy(io.Discard, back); n != downloadBytes/16 || err != nil {
		t.Errorf("%d bytes came back, %v", n, err)
	}
	must(t, receiver.Wait())
	calls, err := os.ReadFile(trace)
	must(t, err)
	for _, call := range []string{"sendfile(", "splice("} {
		if !strings.Contains(string(calls), call) {
			t.Errorf("the receiver made no %s):\n%s", call, calls)
		}
	}
}

func TestReceivedDescriptorsStayInTheProcess(t *testing.T) {
	l, address := listen(t)
	p := dial(t, address)
	_, first := tcpPair(t)
	_, second := tcpPair(t)
	conns := accepted(l)
	must(t, p.SendConn(testContext(t), first, handoff.Meta{}))
	<-conns
	go func() { _ = p.SendConn(testContext(t), second, handoff.Meta{}) }() // waits to be accepted
	for p.Pending() == 0 {
		time.Sleep(time.Millisecond)
	}
	must(t, p.Ping(testContext(t)))
	open, err := exec.Command("ls", "-l", "/proc/self/fd").Output()
	must(t, err)
	if strings.Contains(string(open), "socket:") {
		t.Errorf("a child has\n%s", open)
	}
}

// A stopped process keeps a copy of what it was to get, which does not keep the client
// waiting for the end of what another serves.
func TestCopyInAStoppedProcess(t *testing.T) {
	address := socketIn(t)
	stopped := start(t, "idle", address)
	p := dial(t, address)
	stopped.stop(t)
	client, served := tcpPair(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := p.SendConn(ctx, served, handoff.Meta{}); err == nil {
		t.Fatal("a stopped process took it")
	}
	l, other := listen(t)
	conns := accepted(l)
	must(t, dial(t, other).SendConn(testContext(t), served, handoff.Meta{}))
	c := <-conns
	_, err := io.WriteString(client, "x")
	must(t, err)
	_, err = handoff.Peek(testContext(t), c, 1, func([]byte) (bool, error) { return true, nil })
	must(t, err) // which makes no copy either
	_, err = io.ReadFull(c, make([]byte, 1))
	must(t, err)
	_, err = io.WriteString(c, servedWord)
	must(t, errors.Join(err, c.Close()))
	must(t, client.SetDeadline(time.Now().Add(testTimeout)))
	if got, err := io.ReadAll(client); string(got) != servedWord || err != nil {
		t.Errorf("the client read %q, %v", got, err)
	}
}
