package client_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/wire"
)

// TestDeadlineOnAnotherClock: a server that takes its clock for ours, which it is not,
// gets deadlines by its own.
func TestDeadlineOnAnotherClock(t *testing.T) {
	const timeout = 10 * time.Second
	for _, ahead := range []time.Duration{-time.Second, 0, time.Second, time.Hour} {
		p := newPeer(t)
		p.clockAhead = ahead
		c := p.client()
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		ended := make(chan error, 1)
		go func() {
			_, err := c.CallRaw(ctx, "one", nil, nil)
			ended <- err
		}()
		conn := p.serve()
		request := conn.expect(wire.Request)
		left := wire.DeadlineRemaining(request.Deadline, (monotonic.New().Ns()+uint64(ahead))/uint64(time.Millisecond), true)
		if left > timeout+2*time.Millisecond || left < timeout/2 {
			t.Errorf("a clock that is %v ahead: %v are left, want at most %v", ahead, left, timeout)
		}
		cancel()
		conn.Close()
		<-ended
	}
}

// elsewhere names the variable with the address of the server that the caller in
// another time namespace calls.
const elsewhere = "NEARCALL_TEST_ELSEWHERE"

// TestCallerInAnotherTimeNamespace: calls from a container whose clock differs are
// answered, and end in time when they are not.
func TestCallerInAnotherTimeNamespace(t *testing.T) {
	if address := os.Getenv(elsewhere); address != "" {
		callFromElsewhere(t, address)
		return
	}
	server := startServer(t)
	for _, offset := range []int{-1, 1} {
		arguments := []string{"--time", fmt.Sprintf("--monotonic=%d", offset), os.Args[0], "-test.run=^" + t.Name() + "$", "-test.v"}
		if os.Geteuid() != 0 {
			arguments = append([]string{"--user", "--map-current-user"}, arguments...)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		command := exec.CommandContext(ctx, "unshare", arguments...)
		command.WaitDelay = time.Second // for what it has started
		command.Env = append(os.Environ(), elsewhere+"="+server.address)
		out, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "called from elsewhere") {
			t.Errorf("%+d s: %v (it has %v)\n%s", offset, err, patience, out)
		}
	}
}

func callFromElsewhere(t *testing.T, address string) {
	c := newClient(t, address)
	for range 30 {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		if _, err := client.Call[int64](ctx, c, "ack", 1, 1); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := client.Call[any](ctx, c, "sleep", 5000); err == nil {
		t.Error("a call of five seconds ended")
	} else if took := time.Since(begun); took < 150*time.Millisecond || took > 2*time.Second {
		t.Errorf("a deadline of 200 ms ended after %v: %v", took, err)
	}
	t.Log("called from elsewhere")
}
