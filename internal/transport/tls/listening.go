package tls

import (
	"context"
	cryptotls "crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/tcp"
	"github.com/nearcall/nearcall/internal/wire"
)

// ServerFiles are the paths of a server's PEM files. Revoked may also hold serial numbers.
// Without ClientAuthorities callers are not asked for certificates; with them, callers must
// show one that holds or, if that is Optional, must not show one that does not.
type ServerFiles struct {
	Certificate, Key, ClientAuthorities, Revoked string
	Optional                                     bool
}

// A Listening makes the connections of a server. It implements transport.Transport.
type Listening struct {
	files   ServerFiles
	current atomic.Pointer[loaded]
	// slots bounds how many connections compute keys at the same time.
	slots chan struct{}
	// reloading is held from before the files are read until what was read is used, so that files
	// which were read earlier never take the place of those that were read later.
	reloading sync.Mutex

	// mu protects the connections whose callers have shown a certificate.
	mu          sync.Mutex
	connections map[*Conn]struct{}
}

// loaded is what was made of the files. Each has a configuration of its own, with its own
// keys for sessions, so that no session outlives the files by which its caller was accepted.
type loaded struct {
	config      *cryptotls.Config
	authorities *x509.CertPool
	revoked     *revocationList
	optional    bool
}

// NewListening reads the files.
func NewListening(files ServerFiles) (*Listening, error) {
	if files.ClientAuthorities == "" && (files.Optional || files.Revoked != "") {
		return nil, errors.New("nearcall: clients are asked for certificates, and no authorities are named that issue them (ClientAuthorities)")
	}
	l := &Listening{files: files, slots: make(chan struct{}, wire.TlsHandshakesMax), connections: map[*Conn]struct{}{}}
	if err := l.Reload(); err != nil {
		return nil, err
	}
	return l, nil
}

// Reload reads the files again. New connections use what it has read, and connections whose
// callers are not accepted any more are closed. If a file cannot be used, everything stays
// as it was.
func (l *Listening) Reload() error {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	read, err := l.files.load()
	if err != nil {
		return fmt.Errorf("nearcall: %w", err)
	}
	l.current.Store(read)
	for _, c := range l.known() {
		if _, refusal := read.accept(c.session.ConnectionState().PeerCertificates); refusal != nil {
			c.revoked.revoke(refusal)
		}
	}
	return nil
}

func (f ServerFiles) load() (*loaded, error) {
	own, err := readPair(f.Certificate, f.Key)
	if err != nil {
		return nil, err
	}
	read := &loaded{optional: f.Optional, config: complete(&cryptotls.Config{Certificates: []cryptotls.Certificate{*own}})}
	if f.ClientAuthorities == "" {
		return read, nil
	}
	pool, authorities, err := readAuthorities(f.ClientAuthorities)
	if err != nil {
		return nil, err
	}
	if read.revoked, err = readRevoked(f.Revoked, authorities); err != nil {
		return nil, err
	}
	// crypto/tls makes sure that callers have the key of what they show. Whether it holds is
	// checked in accept, so that callers can be told in words, and for sessions that are
	// taken up as well.
	read.authorities = pool
	read.config.ClientAuth, read.config.ClientCAs = cryptotls.RequestClientCert, pool
	return read, nil
}

// accept returns the names in a caller's certificate, or why it is not accepted.
func (l *loaded) accept(chain []*x509.Certificate) (names []string, refusal error) {
	switch {
	case l.authorities == nil, len(chain) == 0 && l.optional:
		return nil, nil
	case len(chain) == 0:
		return nil, &transport.Unidentified{Text: "the server asks for a client certificate, and none was given: name one (parameters cert= and key=, --cert and --key)"}
	}
	names = namesOf(chain)
	what := "the certificate of " + listNames(names)
	options := x509.VerifyOptions{Roots: l.authorities, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, between := range chain[1:] {
		options.Intermediates.AddCert(between)
	}
	chains, err := chain[0].Verify(options)
	if err != nil {
		return nil, &transport.Unidentified{Text: refusedCertificate(what, chain[0], err, ""), Cause: err}
	}
	// One way to an authority is enough, and the caller's own certificate is part of each.
	if !slices.ContainsFunc(chains, func(chain []*x509.Certificate) bool { return !l.revoked.holds(chain) }) {
		return nil, &transport.Unidentified{Text: what + " was revoked: get another one"}
	}
	return names, nil
}

// admit says who the peer of a connection is that has agreed on keys. The connection is
// known before it is checked, so that no Reload misses it.
func (l *Listening) admit(c *Conn) error {
	chain := c.session.ConnectionState().PeerCertificates
	if len(chain) > 0 {
		l.remember(c)
	}
	names, refusal := l.current.Load().accept(chain)
	if refusal != nil {
		return refusal
	}
	c.names = names
	return nil
}

func (l *Listening) remember(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.sink.isClosed() {
		l.connections[c] = struct{}{}
	}
}

func (l *Listening) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.connections, c)
}

func (l *Listening) known() []*Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]*Conn, 0, len(l.connections))
	for c := range l.connections {
		list = append(list, c)
	}
	return list
}

// Listen binds host and port.
func (l *Listening) Listen(ctx context.Context, a address.Address, options transport.ListenOptions) (net.Listener, error) {
	under, err := tcp.Transport{Silence: a.Silence}.Listen(ctx, a, options)
	if err != nil {
		return nil, err
	}
	return listener{under, l, tcp.Transport{Silence: a.Silence}}, nil
}

// Over returns a listener whose connections are those of another one, with TLS.
func (l *Listening) Over(under net.Listener) net.Listener {
	return listener{under, l, tcp.Transport{}}
}

// Wrap gives an accepted connection TLS, unless it has it.
func (l *Listening) Wrap(conn net.Conn) net.Conn { return l.wrap(conn, tcp.Transport{}) }

func (l *Listening) wrap(conn net.Conn, under tcp.Transport) net.Conn {
	if already, ok := conn.(*Conn); ok {
		return already
	}
	return newServer(under.Wrap(conn), l)
}

// Dial fails: that is for callers.
func (l *Listening) Dial(context.Context, address.Address) (net.Conn, error) {
	return nil, errors.New("nearcall: a server's option cannot dial: use package client/clienttls")
}

// A listener accepts connections with TLS. The handshake is the connection's own affair, so
// that a peer that is slow holds up nobody.
type listener struct {
	net.Listener
	of    *Listening
	under tcp.Transport
}

// AsksForCertificates implements transport.AskingListener.
func (l listener) AsksForCertificates() bool { return l.of.files.ClientAuthorities != "" }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.of.wrap(conn, l.under), nil
}

// Addr implements net.Listener.
func (l listener) Addr() net.Addr { return secureAddr{l.Listener.Addr()} }

// A secureAddr is an address at which TLS is spoken.
type secureAddr struct{ net.Addr }

// Network returns "tls".
func (secureAddr) Network() string { return "tls" }
