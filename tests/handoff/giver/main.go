// Command giver accepts on the listener that is its descriptor 3 and gives every
// connection to one of the receivers.
//
//	giver LEDGER ADDRESS...
//
// What one does not take it gives to the next, and begins again when all have
// failed. It notes in the ledger what was refused for want of descriptors, what was asked
// back in vain, and breaches of the protocol.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// takeTimeout is how long a receiver may take, retryPause what a round of all
// receivers costs at least.
const (
	takeTimeout = 200 * time.Millisecond
	retryPause  = 5 * time.Millisecond
)

func main() {
	fmt.Fprintln(os.Stderr, "giver:", run(os.Args[1], os.Args[2:]))
	os.Exit(1)
}

// run returns only when it cannot go on.
func run(path string, addresses []string) error {
	ledger, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	peers := make([]*peer, len(addresses))
	for i, address := range addresses {
		peers[i] = &peer{address: address}
	}
	fmt.Println("ready")
	for next := 0; ; next++ {
		c, err := listener.Accept()
		if err != nil {
			return err
		}
		go give(c, peers, next, ledger)
	}
}

// give ends when somebody has taken the connection.
func give(c net.Conn, peers []*peer, next int, ledger *os.File) {
	for ; ; next++ {
		err := peers[next%len(peers)].give(c)
		if err == nil {
			return
		}
		note(ledger, err)
		if next%len(peers) == 0 {
			time.Sleep(retryPause)
		}
	}
}

// note writes into the ledger what the tests are to know of an attempt that failed.
func note(ledger *os.File, err error) {
	var failed *handoff.Error
	switch {
	case errors.Is(err, handoff.ErrNoDescriptor):
		_, _ = fmt.Fprintln(ledger, "refused")
	case errors.Is(err, handoff.ErrProtocol):
		_, _ = fmt.Fprintln(ledger, "breach", err)
	case errors.As(err, &failed) && failed.ID != 0 && errors.Is(err, context.DeadlineExceeded) && errors.Is(err, net.ErrClosed):
		// It was asked back in vain, so the channel was ended.
		_, _ = fmt.Fprintln(ledger, "ended")
	}
}

// A peer is a receiver, dialled again when its channel has ended.
type peer struct {
	address string
	mu      sync.Mutex
	channel *handoff.Peer
}

func (p *peer) give(c net.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), takeTimeout)
	defer cancel()
	channel, err := p.open(ctx)
	if err != nil {
		return err
	}
	return channel.SendConn(ctx, c, handoff.Meta{})
}

func (p *peer) open(ctx context.Context) (*handoff.Peer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.channel != nil && p.channel.Err() == nil {
		return p.channel, nil
	}
	if p.channel != nil {
		_ = p.channel.Close()
		p.channel = nil
	}
	channel, err := handoff.Dial(ctx, p.address)
	if err != nil {
		return nil, err
	}
	p.channel = channel
	return channel, nil
}
