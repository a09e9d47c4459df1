package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/peercred"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// features returns the features that this client can use on a connection.
func (e *endpoint) features(conn net.Conn) wire.Feature {
	features := wire.FeatureDescriptions | wire.FeaturePackedLists | wire.FeatureAsks
	if isLocal(conn) {
		// Something that relays to a server's local socket must not make it believe that it
		// shares a clock with a caller on another machine.
		features |= wire.FeatureSharedClock
	}
	if e.takesDirections(conn) {
		features |= wire.FeatureDirections
	}
	if _, local := conn.(transport.LocalConn); !local {
		return features
	}
	if e.memoryWanted() {
		features |= wire.FeatureSharedMemory | wire.FeatureStores
	}
	return features | wire.FeatureDescriptors
}

// takesDirections reports whether the client may follow what the server tells of other places. Where
// it has been directed to itself, it does not.
func (e *endpoint) takesDirections(conn net.Conn) bool {
	if e.client.directions == nil || e.route != nil && e.route.optional {
		return false
	}
	_, secure := conn.(transport.Identified)
	return isLocal(conn) || secure && e.client.config.direct == DirectAny
}

// errNoWelcome is why a connection is given up before ctx has ended.
var errNoWelcome = errors.New("no welcome has come in time")

// handshake makes a connection of a socket, or says why it cannot. Whatever happens
// here, nothing was executed.
func (e *endpoint) handshake(ctx context.Context, conn net.Conn, patience time.Duration) (*connection, *status.Error) {
	if err := e.checkServerUser(conn); err != nil {
		return nil, notExecuted(status.PermissionDenied, "%w", err)
	}
	if failure := e.checkPlain(conn); failure != nil {
		return nil, failure
	}
	carrier, ok := transport.Carry(conn).(transport.OfferingCarrier)
	if !ok {
		return nil, notExecuted(status.Internal, "the connection to %s, a %T, cannot be written to without waiting; the dialer must return one of package net, or one that offers room itself", e.address, conn)
	}
	carrier, counts := counted(carrier)
	// The end of ctx replaces this deadline. If setting it fails, ctx bounds the wait alone.
	_ = conn.SetDeadline(time.Now().Add(patience))
	release := boundByContext(ctx, conn)
	identified, secure := conn.(transport.Identified)
	if secure {
		if err := identified.Secure(ctx); err != nil {
			release()
			return nil, e.insecureFailure(ctx, err)
		}
	}
	offered := e.features(conn)
	helloNs := e.client.clock.Ns()
	welcome, surplus, err := e.exchangeHello(carrier, offered)
	welcomeNs := e.client.clock.Ns()
	release()
	if err != nil {
		return nil, e.welcomeFailure(ctx, err)
	}
	if err := checkWelcome(&welcome, offered); err != nil {
		return nil, err
	}
	made := e.newConnection(carrier, &welcome, surplus)
	made.counted = counts
	made.local, made.secure = isLocal(conn), secure
	if !made.local {
		made.looks, _ = carrier.(transport.QuietCarrier)
		made.silence.init(e.address.Silence, welcomeNs)
	}
	made.clockAheadNs = clockAhead(welcome.ClockNs, helloNs, welcomeNs)
	return made, nil
}

// isLocal reports whether the connection is that of a local socket. That may be the end of a tunnel; see
// connection.isHere.
func isLocal(conn net.Conn) bool {
	return conn.RemoteAddr() != nil && conn.RemoteAddr().Network() == "unix"
}

// clockAhead returns how far the server's clock, of which sampleNs is a sample, is
// ahead of ours. The result may wrap around if the server's clock is behind. It is 0 if
// the sample may come from the same clock, because it lies between the hello and the
// welcome. Otherwise it is the smallest possible difference, so that the server never
// runs a call that its caller has already given up.
func clockAhead(sampleNs, helloNs, welcomeNs uint64) uint64 {
	const near = wire.ClockDistanceMsMax * uint64(time.Millisecond)
	if sampleNs+near >= helloNs && sampleNs <= welcomeNs+near {
		return 0
	}
	return sampleNs - welcomeNs
}

// boundByContext makes reads and writes end with ctx. It returns a function that undoes
// that.
func boundByContext(ctx context.Context, conn net.Conn) (release func()) {
	ran := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0))
		close(ran)
	})
	return func() {
		if !stop() {
			<-ran
		}
		_ = conn.SetDeadline(time.Time{})
	}
}

func (e *endpoint) exchangeHello(conn io.ReadWriter, offered wire.Feature) (welcome wire.Welcome, surplus []byte, err error) {
	hello := wire.Hello{VersionMin: wire.Version, VersionMax: wire.Version, Offered: offered,
		ProcessID: uint32(os.Getpid()), FrameBytesMax: uint32(e.client.config.frameBytesMax),
		ValueBytesMax: uint64(e.client.config.valueBytesMax), ClockNs: e.client.clock.Ns(), StreamCreditBytes: wire.StreamCreditBytes, Software: e.client.config.name}
	if _, err := conn.Write(hello.Append(nil)); err != nil && !errors.Is(err, syscall.EPIPE) {
		// After EPIPE there may still be a refusal to read.
		return welcome, nil, err
	}
	got := make([]byte, 0, wire.HelloBytesMax)
	for {
		taken, err := wire.ParseWelcome(got, &welcome)
		if taken > 0 || err != nil {
			return welcome, got[taken:], err
		}
		n, err := conn.Read(got[len(got):cap(got)])
		if err != nil {
			return welcome, nil, err
		}
		got = got[:len(got)+n]
	}
}

// welcomeFailure returns the error for a hello that was not answered as it should have
// been.
func (e *endpoint) welcomeFailure(ctx context.Context, err error) *status.Error {
	var broken *wire.ProtocolError
	var unidentified *transport.Unidentified
	switch {
	case errors.As(err, &unidentified):
		return notExecuted(status.Unauthenticated, "%s: %w", e.address, unidentified)
	case errors.As(err, &broken):
		return notExecuted(status.Internal, "%s answers in another protocol: %s", e.address, broken.Text)
	case ctx.Err() != nil:
		return endOfWaiting(ctx, fmt.Sprintf("while waiting for the welcome of %s", e.address)).With(status.OutcomeNotExecuted)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errNoWelcome
	}
	failure := notExecuted(status.Unavailable, "%s closed the connection before its welcome (%v); its log may say why", e.address, err)
	failure.Cause = err
	return failure
}

// insecureFailure returns the error for a connection on which there is no agreement on keys.
func (e *endpoint) insecureFailure(ctx context.Context, err error) *status.Error {
	var unidentified *transport.Unidentified
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &unidentified) {
		return e.welcomeFailure(ctx, err)
	}
	return notExecuted(status.Unavailable, "%s: %w", e.address, err)
}

func checkWelcome(w *wire.Welcome, offered wire.Feature) *status.Error {
	if w.Version == 0 {
		return refusal(w)
	}
	if surplus := w.Accepted &^ offered; surplus != 0 {
		return notExecuted(status.Internal, "the welcome accepts features 0x%x that were not offered", uint64(surplus))
	}
	return nil
}

func refusal(w *wire.Welcome) *status.Error {
	code := status.Code(w.Status)
	if w.Status == 0 || w.Status > uint16(status.Unauthenticated) {
		code = status.Unknown
	}
	reason := w.Refusal
	if reason == "" {
		reason = "the server refused the connection and did not say why"
	}
	return notExecuted(code, "%s", reason)
}

// checkServerUser makes sure that the server was not set up by somebody else, in a
// directory to which others can write.
func (e *endpoint) checkServerUser(conn net.Conn) error {
	if e.address.Network != "unix" || e.client.config.anyServerUser {
		return nil
	}
	server, err := peercred.Get(conn)
	if err != nil {
		return fmt.Errorf("who serves %s cannot be told: %w", e.address, err)
	}
	user := server.UserID
	if user == 0 || user == uint32(os.Geteuid()) || slices.Contains(e.client.config.serverUsers, user) {
		return nil
	}
	if owner, ok := directoryOwner(e.address); ok && user == owner {
		return nil
	}
	return fmt.Errorf("the server at %s runs as user %d, who is neither root, nor this user, nor the owner of the socket's directory; if that is right, allow it by client.WithServerUsers(%d), in the shell by --any-server-user",
		e.address, user, user)
}
