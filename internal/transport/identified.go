package transport

import (
	"net"

	"github.com/nearcall/nearcall/internal/address"
)

// An Unidentified error says why one side does not accept who the other one is. Nothing
// was executed.
type Unidentified struct {
	// Text is a sentence for the user of the side that was not accepted, and says what to
	// do.
	Text  string
	Cause error
}

// Error implements error.
func (u *Unidentified) Error() string { return u.Text }

// Unwrap returns the cause.
func (u *Unidentified) Unwrap() error { return u.Cause }

// An Unusable error says that an address cannot be dialled because of what the program has
// said about it, such as a file that cannot be read.
type Unusable struct{ Cause error }

// Error implements error.
func (u *Unusable) Error() string { return u.Cause.Error() }

// Unwrap returns the cause.
func (u *Unusable) Unwrap() error { return u.Cause }

// A Securing transport makes its connections on top of those of another one.
type Securing interface {
	Transport
	// Over makes a connection of one that somebody else has dialled for the address.
	Over(conn net.Conn, a address.Address) (net.Conn, error)
}

// A RevocableCarrier is told when its peer is no longer accepted.
type RevocableCarrier interface {
	Carrier
	// OnRevoked makes call be called once, if what Secure has found no longer holds. It
	// may be called before OnRevoked returns, and must not wait.
	OnRevoked(call func(reason error))
}

// An AskingListener says whether it asks those that connect for certificates.
type AskingListener interface {
	net.Listener
	AsksForCertificates() bool
}

// A LingeringCarrier may still send what it has taken when it has been closed, for a
// limited time.
type LingeringCarrier interface {
	Carrier
	// Gone is closed once nothing is left of the connection. Preconditions: it has been
	// closed.
	Gone() <-chan struct{}
}
