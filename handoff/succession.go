package handoff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// drainName is the name of the file that a successor gives to its predecessor once it
// serves: one end of a pipe, which the predecessor closes when it has freed its
// address.
const drainName = "drain"

// successionTimeout is how long a predecessor may take for each of its steps.
const successionTimeout = wire.HandoffSuccessionMs * time.Millisecond

// successionPause is the time between two attempts to reach a predecessor that ends
// meanwhile.
const successionPause = 20 * time.Millisecond

// A Succession is a process among those that serve the same listeners one after the
// other. With it, a program that is started again replaces the running one without
// refusing a connection:
//
//	site, err := handoff.Succeed(ctx, "unix:/run/site/control.sock", listen)
//	...
//	go handoff.Serve(server, site.Items[0].Listener)
//	err = site.Ready(ctx)
//	<-site.Replaced()
//	err = handoff.Shutdown(ctx, server)
type Succession struct {
	// Items are the listeners: those of the predecessor, or those that open returned.
	Items []Item

	address  string
	options  []Option
	before   *Peer
	replaced chan struct{}
	once     sync.Once
}

// Succeed asks the process that listens at the address, the predecessor, for its
// listeners. If no process does, because this is the first one, it calls open. The
// items belong to the caller. They stay open here, and are offered to the next process.
// The predecessor goes on serving until Ready, so a successor that fails before does no
// harm.
func Succeed(ctx context.Context, address string, open func() ([]Item, error), options ...Option) (*Succession, error) {
	s := &Succession{address: address, options: options, replaced: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, successionTimeout)
	defer cancel()
	for {
		err := s.takeOver(ctx)
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
			s.Items, err = open()
		}
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil || !isReplaced(err):
			return nil, &Error{Op: "succeed", Address: address, Err: err}
		}
		time.Sleep(successionPause)
	}
}

// isReplaced reports whether the predecessor may just be being replaced by another
// process, which will be there in a moment.
func isReplaced(err error) bool {
	for _, sign := range []error{net.ErrClosed, ErrDraining, io.EOF, syscall.EPIPE, syscall.ECONNRESET, syscall.EADDRINUSE} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}

var errNothingOffered = fmt.Errorf("it offers no listeners: %w", net.ErrClosed)

func (s *Succession) takeOver(ctx context.Context) error {
	peer, err := Dial(ctx, s.address, s.options...)
	if err != nil {
		return err
	}
	items, err := Takeover(ctx, s.address, s.options...)
	if err == nil && len(items) == 0 {
		err = errNothingOffered
	}
	if err != nil {
		return errors.Join(err, peer.Close())
	}
	s.Items, s.before = items, peer
	return nil
}

// Ready tells the predecessor that this process serves now. It returns when this
// process can itself be succeeded.
func (s *Succession) Ready(ctx context.Context) error {
	if s.before != nil {
		ctx, cancel := context.WithTimeout(ctx, successionTimeout)
		defer cancel()
		err := s.dismiss(ctx)
		if err := errors.Join(err, s.before.Close()); err != nil {
			return &Error{Op: "succeed", Address: s.address, Err: err}
		}
	}
	offer := WithListeners(func(name string) (offered []Item) {
		for _, item := range s.Items {
			if name == "" || name == item.Name {
				offered = append(offered, item)
			}
		}
		return offered
	})
	control, err := Listen(s.address, append(s.options[:len(s.options):len(s.options)], offer)...)
	if err != nil {
		return err
	}
	go s.awaitSuccessor(control)
	return nil
}

// dismiss tells the predecessor to stop and waits until its address is free.
func (s *Succession) dismiss(ctx context.Context) error {
	waits, gone, err := os.Pipe()
	if err != nil {
		return err
	}
	defer waits.Close()
	err = s.before.SendFile(ctx, gone, Meta{Name: drainName})
	if err := errors.Join(err, gone.Close()); err != nil {
		return fmt.Errorf("the process before was not told to stop: %w", err)
	}
	end, _ := ctx.Deadline()
	if err := waits.SetReadDeadline(end); err != nil {
		return err
	}
	if _, err := waits.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the process before keeps its address: %w", err)
	}
	return nil
}

// awaitSuccessor waits for a successor that serves, and frees the address for it.
func (s *Succession) awaitSuccessor(control *Listener) {
	for {
		file, meta, err := control.AcceptFile(context.Background())
		if err != nil {
			return
		}
		drain := meta.Name == drainName
		if drain {
			s.leavePaths()
			_ = control.Close()
			s.once.Do(func() { close(s.replaced) })
		}
		_ = file.Close()
		if drain {
			return
		}
	}
}

// leavePaths leaves the socket files of Unix listeners to the successor.
func (s *Succession) leavePaths() {
	for _, item := range s.Items {
		if l, ok := item.Listener.(*net.UnixListener); ok {
			l.SetUnlinkOnClose(false)
		}
	}
}

// Replaced returns a channel that is closed when a successor serves. This process then
// stops accepting, finishes what it has begun, and ends.
func (s *Succession) Replaced() <-chan struct{} { return s.replaced }
