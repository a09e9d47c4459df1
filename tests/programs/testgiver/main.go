// Command testgiver is the front that the tests of C, Perl and Python start: it
// accepts TCP connections and gives each to a process that listens for handoffs.
// With -take it is the other side, for those that give.
//
// It prints "ready HOST:PORT" when it listens, a line for each connection that
// nobody took, and leaves on SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// redialPause is between two attempts to connect to a process that is not there.
const redialPause = 10 * time.Millisecond

// readTimeout bounds how long a client may take to close.
const readTimeout = 10 * time.Second

type front struct {
	prefixBytes int
	name        string
	message     string
	timeout     time.Duration

	mu    sync.Mutex
	peers map[string]*handoff.Peer
	turn  int
	order []string
}

// addresses is a flag that may be given several times.
type addresses []string

func (a *addresses) String() string     { return fmt.Sprint(*a) }
func (a *addresses) Set(s string) error { *a = append(*a, s); return nil }

func main() {
	f := &front{peers: make(map[string]*handoff.Peer)}
	var targets addresses
	flag.Var(&targets, "address", "where a process takes connections, as unix:/path; may be repeated")
	listen := flag.String("listen", "127.0.0.1:0", "where clients connect")
	flag.IntVar(&f.prefixBytes, "prefix", 0, "how many bytes of each connection to read and give as its prefix")
	flag.StringVar(&f.name, "name", "test", "name of what is given")
	flag.StringVar(&f.message, "message", "", "message with what is given")
	flag.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long a connection may wait to be taken")
	take := flag.String("take", "", "take connections at this address instead, and answer them")
	flag.Parse()
	f.order = targets
	run := func() error { return f.run(*listen) }
	if *take != "" {
		run = func() error { return takeAll(*take) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "testgiver:", err)
		os.Exit(1)
	}
}

func (f *front) run(address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	for _, target := range f.order {
		go f.keep(ctx, target)
	}
	fmt.Println("ready", listener.Addr())
	for {
		c, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go f.give(ctx, c)
	}
}

// keep keeps a channel to a process, whenever there is one.
func (f *front) keep(ctx context.Context, target string) {
	for ctx.Err() == nil {
		p, err := handoff.Dial(ctx, target, handoff.WithTakeBack(answerReturned))
		if err != nil {
			time.Sleep(redialPause)
			continue
		}
		f.set(target, p)
		<-p.Done()
		f.set(target, nil)
	}
}

func (f *front) set(target string, p *handoff.Peer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.peers[target] = p
}

// choose returns the process that has least to do; nil: there is none.
func (f *front) choose() (best *handoff.Peer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn++
	for i := range f.order {
		p := f.peers[f.order[(f.turn+i)%len(f.order)]]
		if p != nil && (best == nil || p.Pending() < best.Pending()) {
			best = p
		}
	}
	return best
}

func (f *front) give(ctx context.Context, c net.Conn) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	m := handoff.Meta{Name: f.name, Message: []byte(f.message), Prefix: make([]byte, f.prefixBytes)}
	if _, err := io.ReadFull(c, m.Prefix); err != nil {
		_ = c.Close()
		return
	}
	var err error
	for ctx.Err() == nil {
		if p := f.choose(); p != nil {
			if err = p.SendConn(ctx, c, m); err == nil {
				return
			}
		}
		time.Sleep(redialPause)
	}
	fmt.Println("nobody took it:", err)
	answer(c, "503 Service Unavailable", "nobody took it")
}

// answerReturned answers a connection that came back.
func answerReturned(c *handoff.Conn) {
	unread := make([]byte, c.Buffered())
	_, _ = io.ReadFull(c, unread)
	how := "handed back with "
	if string(c.Meta().Message) == handoff.MessageIdle {
		how = "handed back idle with "
	}
	answer(c, "200 OK", how+string(unread))
}

// answer answers, and reads what is left: closing before would reset the connection,
// and the client lose the answer.
func answer(c net.Conn, status, body string) {
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(readTimeout))
		_, _ = io.Copy(io.Discard, c)
	}
	_ = c.Close()
}
