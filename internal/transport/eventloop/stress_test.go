package eventloop_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

const (
	stressConnections = 8
	stressBytes       = 1 << 20
	burstBytesMax     = 3000
	readBytesMax      = 700
)

// TestRandomBursts: whatever comes when, and however little is read at a time, by
// connections that are parked whenever nothing is there: all of it is read in order,
// and then the end.
func TestRandomBursts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	eachTransport(t, func(first pair) {
		var done sync.WaitGroup
		for n := range stressConnections {
			p := first
			if n > 0 {
				p = first.another()
			}
			done.Go(func() { p.writeBursts(rand.New(rand.NewPCG(seed, uint64(n)))) })
			done.Go(func() {
				if err := p.readBursts(rand.New(rand.NewPCG(seed, uint64(n)+stressConnections))); err != nil {
					p.Errorf("connection %d: %v", n, err)
				}
			})
		}
		done.Wait()
	})
}

// patternAt is the byte at a place of the stream.
func patternAt(at int) byte { return byte(at ^ at>>8 ^ at>>16) }

func (p pair) writeBursts(random *rand.Rand) {
	defer p.peer.Close()
	for sent := 0; sent < stressBytes; {
		burst := make([]byte, min(1+random.IntN(burstBytesMax), stressBytes-sent))
		for i := range burst {
			burst[i] = patternAt(sent + i)
		}
		if _, err := p.peer.Write(burst); err != nil {
			p.Error(err)
			return
		}
		sent += len(burst)
		for range random.IntN(4) {
			runtime.Gosched()
		}
	}
}

func (p pair) readBursts(random *rand.Rand) error {
	resumed := make(chan struct{}, 1)
	buffer := make([]byte, readBytesMax)
	for read := 0; ; {
		n, err := p.conn.ReadNow(buffer[:1+random.IntN(readBytesMax)])
		switch {
		case errors.Is(err, io.EOF) && read == stressBytes:
			return nil
		case err != nil:
			return fmt.Errorf("after %d bytes: %w", read, err)
		}
		for i, b := range buffer[:n] {
			if b != patternAt(read+i) {
				return fmt.Errorf("byte %d is another", read+i)
			}
		}
		read += n
		if n > 0 || !p.conn.Park(func() { resumed <- struct{}{} }) {
			continue
		}
		select {
		case <-resumed:
		case <-time.After(timeout):
			return fmt.Errorf("not resumed after %d bytes", read)
		}
	}
}
