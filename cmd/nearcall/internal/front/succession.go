package front

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// drainName is the name of the file that a successor gives when it accepts
// connections itself: the end of a pipe that is closed when the predecessor's
// addresses are free.
const drainName = "drain"

// releaseTimeout is how long a predecessor may take to free its addresses.
const releaseTimeout = 5 * time.Second

// A predecessorProcess is the front whose listeners this one has.
type predecessorProcess struct{ peer *handoff.Peer }

// takeOver asks a running front for its listeners. Nobody is there at the first
// start, which is no error. One that is being replaced itself breaks off: then its
// successor is asked.
func (f *Front) takeOver(ctx context.Context, from string) ([]handoff.Item, *predecessorProcess, error) {
	deadline := time.Now().Add(releaseTimeout)
	for first := true; ; first = false {
		items, p, err := f.askForListeners(ctx, from)
		nobody := errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
		brokenOff := nobody || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
		last := time.Now().After(deadline) || ctx.Err() != nil
		switch {
		case err == nil:
			return items, p, nil
		case nobody && (first || last):
			f.log.Info("there is no front to take over from", "address", from)
			return nil, nil, nil
		case !brokenOff || last:
			return nil, nil, fmt.Errorf("cannot take over from %s: %w", from, err)
		}
		time.Sleep(asideRetry)
	}
}

// errNothingOffered is that of a front which drains already.
var errNothingOffered = fmt.Errorf("it has no listeners any more: %w", net.ErrClosed)

func (f *Front) askForListeners(ctx context.Context, from string) ([]handoff.Item, *predecessorProcess, error) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	peer, err := handoff.Dial(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	items, err := handoff.Takeover(ctx, from)
	if err == nil && len(items) == 0 {
		err = errNothingOffered
	}
	if err != nil {
		peer.Close()
		return nil, nil, err
	}
	f.log.Info("has the listeners of the front before", "address", from, "pid", peer.Credentials().ProcessID, "listeners", len(items))
	return items, &predecessorProcess{peer}, nil
}

// dismiss tells the predecessor to drain, and waits until its addresses are free.
func (p *predecessorProcess) dismiss(ctx context.Context) error {
	if p == nil {
		return nil
	}
	defer p.peer.Close()
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	waits, gone, err := os.Pipe()
	if err != nil {
		return err
	}
	defer waits.Close()
	err = p.peer.SendFile(ctx, gone, handoff.Meta{Name: drainName})
	gone.Close()
	if err != nil {
		return fmt.Errorf("the front before was not told to drain: %w; stop it", err)
	}
	end, _ := ctx.Deadline()
	if err := waits.SetReadDeadline(end); err != nil {
		return err
	}
	_, err = waits.Read(make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("the front before drains, but keeps its control and metrics addresses")
	}
	return nil
}
