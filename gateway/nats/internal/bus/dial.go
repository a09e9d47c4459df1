package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Dial connects to the server with that name at another hub, before ctx ends. If there is no such
// server, the error wraps syscall.ECONNREFUSED. If nobody is there it wraps syscall.EHOSTUNREACH:
// the hub may have lost the engine, and come back.
func (h *Hub) Dial(ctx context.Context, instance, server string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !isID(instance) || len(server) > nameBytesMax {
		return nil, fmt.Errorf("no hub of the message bus can be %q, or no server %q", instance, server)
	}
	s, err := h.enter(origin{instance: instance})
	if err != nil {
		return nil, err
	}
	s.dialled = true
	s.to = h.subjects.of(instance) + s.own.stream
	s.say(s.opening(), opening{server, h.config.Name}.append(nil))
	if err := s.awaitOpened(ctx); err != nil {
		s.close()
		return nil, err
	}
	return newConn(s, server), nil
}

func (s *stream) opening() header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headerLocked(kindOpen)
}

// awaitOpened waits for the peer's answer.
func (s *stream) awaitOpened(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.wake)()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.opened && s.failure == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.closed {
			return ErrClosed
		}
		s.changed.Wait()
	}
	var lost *Lost
	switch {
	case s.opened:
		return nil
	case errors.Is(s.failure, errNobody):
		return fmt.Errorf("the hub is not there: %w", syscall.EHOSTUNREACH)
	case errors.As(s.failure, &lost) && s.knows:
		return fmt.Errorf("%w: %w", s.failure, syscall.ECONNREFUSED)
	}
	return s.failure
}
