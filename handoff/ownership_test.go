package handoff_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// A recall races with Accept: whoever SendConn and Accept say owns the connection
// does, and nobody else.
func TestRecallRacesWithAccept(t *testing.T) {
	needsSockets(t)
	const handoffs = 3000
	l, address := listen(t)
	p := dial(t, address)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = tcp.Close() }()
	taken := make(chan *handoff.Conn, handoffs)
	go func() {
		defer close(taken)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken <- c.(*handoff.Conn)
		}
	}()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	given, kept := 0, 0
	for range handoffs {
		client, err := net.Dial("tcp", tcp.Addr().String())
		must(t, err)
		served, err := tcp.Accept()
		must(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(100))*time.Microsecond)
		err = p.SendConn(ctx, served, handoff.Meta{})
		cancel()
		if err == nil {
			given++
			c := <-taken
			_, err = io.WriteString(c, "x")
			must(t, errors.Join(err, c.Close()))
		} else {
			kept++
			_, err = io.WriteString(served, "x")
			must(t, errors.Join(err, served.Close()))
		}
		if got, err := io.ReadAll(client); string(got) != "x" || err != nil {
			t.Fatalf("the client read %q, %v after %d handoffs", got, err, given+kept)
		}
		must(t, client.Close())
	}
	must(t, l.Close())
	if extra, more := <-taken; more {
		t.Errorf("accepted what its giver kept: %v", extra.RemoteAddr())
	}
	t.Logf("%d given, %d kept", given, kept)
	if given == 0 || kept == 0 {
		t.Error("nothing raced")
	}
}

// A channel that ends before the answer leaves what was given with its giver.
func TestChannelEndsBeforeTheAnswer(t *testing.T) {
	_, address := listen(t)
	p := dial(t, address)
	var gifts sync.WaitGroup
	for range 10 {
		client, served := tcpPair(t)
		gifts.Go(func() {
			if err := p.SendConn(testContext(t), served, handoff.Meta{}); !errors.Is(err, net.ErrClosed) {
				t.Errorf("given to nobody: %v", err)
			}
			if _, err := io.WriteString(served, "x"); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
				t.Error(err)
			}
		})
	}
	for p.Pending() < 10 {
		time.Sleep(time.Millisecond)
	}
	must(t, p.Close())
	gifts.Wait()
	if err := p.Ping(testContext(t)); !errors.Is(err, net.ErrClosed) || !strings.HasSuffix(err.Error(), "the channel was ended here") {
		t.Errorf("ping over a closed channel: %v", err)
	}
}

func TestTheWindowBoundsWhatIsUnanswered(t *testing.T) {
	_, address := listen(t, handoff.WithWindow(2))
	p := dial(t, address)
	ctx, cancel := context.WithCancel(testContext(t))
	var gifts sync.WaitGroup
	for range 5 {
		_, served := tcpPair(t)
		gifts.Go(func() { _ = p.SendConn(ctx, served, handoff.Meta{}) })
	}
	for p.Pending() < 2 {
		time.Sleep(time.Millisecond)
	}
	// A third would be a breach and end the channel.
	must(t, p.Ping(testContext(t)))
	if p.Pending() > 2 {
		t.Errorf("%d are pending", p.Pending())
	}
	cancel()
	gifts.Wait()
}

func TestTooLargeIsNotSent(t *testing.T) {
	_, address := listen(t, handoff.WithPrefixLimit(10), handoff.WithMessageLimit(10))
	p := dial(t, address)
	_, served := tcpPair(t)
	for _, m := range []handoff.Meta{
		{Prefix: make([]byte, 11)}, {Message: make([]byte, 11)}, {Name: string(make([]byte, 256))},
	} {
		if err := p.SendConn(testContext(t), served, m); !errors.Is(err, handoff.ErrTooLarge) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

func TestDeadlinesOfHandedConnections(t *testing.T) {
	l, address := listen(t)
	p := dial(t, address)
	_, served := tcpPair(t)
	conns := accepted(l)
	must(t, p.SendConn(testContext(t), served, handoff.Meta{}))
	c := <-conns
	woken := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		woken <- err
	}()
	must(t, c.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	var timeout net.Error
	if err := <-woken; !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a read past its deadline: %v", err)
	}
}

// Descriptors of both sides are where they were, after many handoffs of each outcome.
func TestNoDescriptorIsLeft(t *testing.T) {
	l, address := listen(t)
	p := dial(t, address)
	must(t, p.Ping(testContext(t)))
	round := func(accept bool) {
		client, served := tcpPair(t)
		ctx := testContext(t)
		if accept {
			conns := accepted(l)
			must(t, p.SendConn(ctx, served, handoff.Meta{}))
			must(t, (<-conns).Close())
		} else {
			ended, cancel := context.WithTimeout(ctx, time.Millisecond)
			if err := p.SendConn(ended, served, handoff.Meta{}); err == nil {
				t.Fatal("somebody accepted")
			}
			cancel()
			must(t, served.Close())
		}
		must(t, client.Close())
	}
	round(true)
	round(false)
	before := descriptors(t)
	for i := range 200 {
		round(i%2 == 0)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// Connections go to and fro with prefixes that fill the sockets of their channel:
// nobody waits for ever, and no byte gets lost.
func TestManyGoToAndFro(t *testing.T) {
	const connections, rounds = 30, 10
	l, address := listen(t, handoff.WithWindow(4))
	var p *handoff.Peer
	ready := make(chan struct{})
	p = dial(t, address, handoff.WithWindow(4), handoff.WithTakeBack(func(c *handoff.Conn) {
		<-ready
		if err := p.SendConn(testContext(t), c, c.Meta()); err != nil {
			t.Error(err)
		}
	}))
	close(ready)
	var all sync.WaitGroup
	go func() {
		for {
			accepted, err := l.Accept()
			if err != nil {
				return
			}
			go roundOrEcho(t, accepted.(*handoff.Conn), rounds)
		}
	}()
	for i := range connections {
		client, served := tcpPair(t)
		all.Go(func() {
			prefix := bytes.Repeat([]byte{byte(i)}, 60<<10)
			if err := p.SendConn(testContext(t), served, handoff.Meta{Prefix: prefix, Message: []byte{0}}); err != nil {
				t.Error(err)
				return
			}
			got, err := io.ReadAll(client)
			if want := append(prefix, bytes.Repeat([]byte{'.'}, rounds)...); !bytes.Equal(got, want) || err != nil {
				t.Errorf("%d bytes came back, %v; they were %d", len(got), err, len(want))
			}
		})
	}
	all.Wait()
}

// roundOrEcho sends a connection back with a byte more in its prefix, or, after so
// many rounds, sends its client what the prefix has become. The message counts.
func roundOrEcho(t *testing.T, c *handoff.Conn, rounds int) {
	message := c.Meta().Message
	unread := make([]byte, c.Buffered())
	if _, err := io.ReadFull(c, unread); err != nil {
		t.Error(err)
	}
	if int(message[0]) < rounds {
		message[0]++
		if err := c.HandBack(testContext(t), append(unread, '.')); err != nil {
			t.Error(err)
		}
		return
	}
	_, err := c.Write(unread)
	if err := errors.Join(err, c.Close()); err != nil {
		t.Error(err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	must(t, err)
	return len(open)
}
