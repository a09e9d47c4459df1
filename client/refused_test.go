package client_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

const (
	// refusedAddress in the environment makes this program the caller of
	// TestTooManyDescriptorsOnTheWay.
	refusedAddress = "NEARCALL_TEST_REFUSED"
	otherUser      = 12345
	descriptorsMax = 64 // of the caller, open and on their way
	// The kernel counts before it adds.
	callsTaken = descriptorsMax/wire.FileDescriptorsPerFrameMax + 1
)

// A user with too many descriptors on the way (ETOOMANYREFS): a call waits for its
// deadline, and is sent when there is room. The caller is a process of another
// user, because root has no such limit.
func TestTooManyDescriptorsOnTheWay(t *testing.T) {
	if address := os.Getenv(refusedAddress); address != "" {
		callUntilRefused(t, address)
		return
	}
	p := newPeer(t)
	p.welcome.Accepted |= wire.FeatureDescriptors
	path := strings.TrimPrefix(p.address, "unix:")
	must(t, os.Chmod(path, 0o777))
	must(t, os.Chmod(filepath.Dir(path), 0o755))
	caller, output, proceed := startAsOtherUser(t, filepath.Dir(path), p.address)
	conn := p.serve()
	conn.parser.Features = wire.FeatureDescriptors
	conn.describe(func(...*os.File) {})
	if line, err := output.ReadString('\n'); line != "refused\n" {
		rest, _ := io.ReadAll(output)
		t.Fatalf("the caller says %q (%v) %s", line, err, rest)
	}
	_, err := proceed.Write([]byte("\n"))
	must(t, err)
	requests := 0
	for requests <= callsTaken {
		frame := conn.next()
		if frame.Type != wire.Request {
			continue // CANCEL
		}
		if requests++; frame.Descriptors != wire.FileDescriptorsPerFrameMax {
			t.Errorf("a request with %d descriptors", frame.Descriptors)
		}
		conn.reply(frame, []byte{0xC0})
	}
	must(t, caller.Wait())
}

func startAsOtherUser(t *testing.T, directory, address string) (*exec.Cmd, *bufio.Reader, io.Writer) {
	t.Helper()
	program := filepath.Join(directory, "caller")
	text, err := os.ReadFile(os.Args[0])
	must(t, err)
	must(t, os.WriteFile(program, text, 0o755))
	caller := exec.Command(program, "-test.run=^TestTooManyDescriptorsOnTheWay$")
	caller.Env = append(os.Environ(), refusedAddress+"="+address, "TMPDIR=/tmp")
	caller.Dir = directory
	if os.Geteuid() == 0 {
		caller.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	}
	output, err := caller.StdoutPipe()
	must(t, err)
	proceed, err := caller.StdinPipe()
	must(t, err)
	caller.Stderr = os.Stderr
	must(t, caller.Start())
	t.Cleanup(func() { caller.Process.Kill() })
	return caller, bufio.NewReader(output), proceed
}

// callUntilRefused is the caller: its requests are not read, until it has been
// refused.
func callUntilRefused(t *testing.T, address string) {
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: descriptorsMax, Max: descriptorsMax}))
	c, err := client.New(address, client.WithAnyServerUser())
	must(t, err)
	var files []any
	for range wire.FileDescriptorsPerFrameMax {
		files = append(files, os.Stderr)
	}
	call := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return c.Call(ctx, "f", nil, files...)
	}
	for range callsTaken {
		if err := call(20 * time.Millisecond); !errors.Is(err, status.DeadlineExceeded) || status.FromError(err).Outcome == status.OutcomeNotExecuted {
			t.Fatalf("a call that is sent and not answered: %v", err)
		}
	}
	if err := call(100 * time.Millisecond); !errors.Is(err, status.DeadlineExceeded) || status.FromError(err).Outcome != status.OutcomeNotExecuted {
		t.Fatalf("a call that is not sent: %v", err)
	}
	os.Stdout.WriteString("refused\n")
	os.Stdin.Read(make([]byte, 1))
	must(t, call(patience))
	must(t, c.Close())
}

// A server that answers a request that it has not got yet does not get its
// descriptors: they are closed with the call, and their numbers may be others' by
// the time.
func TestAnsweredBeforeItWasSent(t *testing.T) {
	p := newPeer(t)
	p.welcome.Accepted |= wire.FeatureDescriptors
	c := p.client(client.WithAttempts(1))
	sendFile := func() <-chan error {
		done := make(chan error, 1)
		go func() { done <- c.Call(context.Background(), "f", nil, os.Stderr) }()
		return done
	}
	described := sendFile()
	conn := p.serve()
	conn.parser.Features = wire.FeatureDescriptors
	conn.describe(func(*os.File) {})
	conn.reply(conn.expect(wire.Request), []byte{0xC0})
	must(t, <-described)
	first := begin(context.Background(), c, "echo", make([]byte, 3<<20))
	conn.awaitUnread() // and the rest does not fit
	second := sendFile()
	stacks := make([]byte, 1<<20)
	eventually(t, func() bool {
		stacks = stacks[:runtime.Stack(stacks[:cap(stacks)], true)]
		return strings.Contains(string(stacks), "client.(*connection).writeGathered(") && strings.Contains(string(stacks), "client.(*connection).wait(")
	}, func() string { return "the calls do not wait" })
	conn.send(wire.Frame{Header: wire.Header{Type: wire.Reply, Codec: wire.CodecMessagePack, CallID: 4, FunctionID: 1}, Payload: []byte{0xC0}})
	must(t, <-second)
	for range 8 { // so that the number is another's
		other, err := os.Open(os.DevNull)
		must(t, err)
		defer other.Close()
	}
	conn.reply(conn.expect(wire.Request), nil)
	rest, err := io.ReadAll(conn.Conn)
	if got := len(conn.buffer) + len(rest); got > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes (%v) came of the request whose call has ended", got, err)
	}
	expectReply(t, wait(t, first), "")
}
