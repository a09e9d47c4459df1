package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/gateway/nats/internal/bus"
)

// A link is a gateway's connection to its engine. It is made anew by itself whenever it is lost.
type link struct {
	log      *slog.Logger
	embedded *ownEngine // nil if the engine runs elsewhere
	// came is called in a goroutine of the engine's library whenever there is a connection.
	came func()

	*nats.Conn

	complaints complaints
	reconnects atomic.Uint64
	// others is how many other engines the gateway's own was connected to. It belongs to hasGrown.
	others    int
	closing   atomic.Bool
	mu        sync.Mutex
	lastError error
	// vital is the subject without which a gateway hears of no other. barred says that the engine
	// does not permit it, on the connection that there is.
	vital  string
	barred error
}

// connect connects to the engine, or begins to: an engine that is not there yet is waited for beside
// everything else. Its errors are mistakes of the configuration.
func connect(config *Config, log *slog.Logger, came func()) (*link, error) {
	l := &link{log: log, came: came, vital: subjects{config.Prefix}.member()}
	options, err := l.options(config)
	if err != nil {
		return nil, err
	}
	urls := config.Engine.URLs
	for _, at := range config.Engine.inTheClear() {
		log.Warn("calls may travel in the clear to the engine, for everybody on the way to read and to change: use tls:// in its URL, or name files for TLS", "url", at)
	}
	if len(urls) == 0 {
		if l.embedded, err = startEmbedded(config, log); err != nil {
			return nil, err
		}
		options = append(options, nats.InProcessServer(l.embedded), nats.UserInfo(ownUser, l.embedded.password))
	}
	if l.Conn, err = nats.Connect(strings.Join(urls, ","), options...); err != nil {
		l.stopEmbedded()
		return nil, fmt.Errorf("gateway: engine: %w", err)
	}
	return l, nil
}

// inTheClear returns the servers of other machines that need not be connected to by TLS, unless they
// demand it.
func (e *Engine) inTheClear() (all []string) {
	if e.TLS != (TLS{}) || e.Embedded.Plain {
		return nil
	}
	for _, text := range e.URLs {
		at, err := url.Parse(text)
		if err == nil && at.Scheme != "tls" && at.Scheme != "wss" && at.Host != "" && !isLoopback(at.Hostname()) {
			all = append(all, at.Redacted())
		}
	}
	return all
}

// options are those of the bus, credentials, files, and what the gateway wants to be told.
func (l *link) options(config *Config) ([]nats.Option, error) {
	options := append(bus.Options(), nats.Name("nearcall gateway "+config.Name), nats.IgnoreAuthErrorAbort(),
		nats.ConnectHandler(func(*nats.Conn) { l.connected() }),
		nats.ReconnectHandler(func(*nats.Conn) {
			l.reconnects.Add(1)
			l.connected()
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { l.failed(err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { l.failed(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, about *nats.Subscription, err error) { l.complained(about, err) }),
	)
	e := &config.Engine
	if e.Credentials != "" {
		options = append(options, nats.UserCredentials(e.Credentials))
	}
	if e.Nkey != "" {
		option, err := nats.NkeyOptionFromSeed(e.Nkey)
		if err != nil {
			return nil, fmt.Errorf("gateway: engine: %s has no nkey: %w", e.Nkey, err)
		}
		options = append(options, option)
	}
	if len(e.URLs) == 0 {
		return options, nil // its own engine is reached within the process
	}
	if e.TLS.Authorities != "" {
		options = append(options, nats.RootCAs(e.TLS.Authorities))
	}
	if e.TLS.Certificate != "" {
		options = append(options, nats.ClientCert(e.TLS.Certificate, e.TLS.Key))
	}
	return options, nil
}

func (l *link) connected() {
	l.mu.Lock()
	l.lastError, l.barred = nil, nil
	l.mu.Unlock()
	l.log.Info("connected to the engine")
	l.came()
}

// failed notes why there is no connection.
func (l *link) failed(err error) {
	if err == nil {
		err = errors.New("the connection was closed")
	}
	l.mu.Lock()
	repeated := l.lastError != nil && l.lastError.Error() == err.Error()
	l.lastError = err
	l.mu.Unlock()
	if !repeated && !l.closing.Load() {
		l.log.Warn("not connected to the engine; trying again and again", "error", err)
	}
}

// complained logs what goes wrong beside connections, such as a permission that is missing.
func (l *link) complained(about *nats.Subscription, err error) {
	l.noteBarred(err)
	leftOut, may := l.complaints.next(time.Now())
	if !may {
		return
	}
	subject := ""
	if about != nil {
		subject = about.Subject
	}
	l.log.Warn("the engine complains", "subject", subject, "error", err, "left_out", leftOut)
}

// noteBarred notes that the engine does not let the gateway be one. It is the only way in which the
// engine of another gateway tells it from a program.
func (l *link) noteBarred(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(strings.ToLower(err.Error()), `"`+strings.ToLower(l.vital)+`"`) {
		return
	}
	l.mu.Lock()
	first := l.barred == nil
	l.barred = fmt.Errorf("the NATS server does not permit %s, without which gateways do not find each other: if that server runs in another gateway, where programs may only call, "+
		"join it by a route (--route) instead of a URL (--nats), or use a NATS server that runs by itself; otherwise give this gateway its permissions", l.vital)
	barred := l.barred
	l.mu.Unlock()
	if first {
		l.log.Error("this gateway can neither call other machines nor be called", "error", barred)
	}
}

// why returns what keeps the gateway from its engine, or nil if nothing does.
func (l *link) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.IsConnected() {
		return l.barred
	}
	if l.lastError != nil {
		return l.lastError
	}
	return errors.New("not connected yet")
}

// hasGrown reports whether the gateway's own engine has found others since it was asked last. It is
// called by one goroutine.
func (l *link) hasGrown() bool {
	if l.embedded == nil {
		return false
	}
	others := l.embedded.NumRoutes() + l.embedded.NumLeafNodes()
	grown := others > l.others
	l.others = others
	return grown
}

// status returns what there is to tell of the engine.
func (l *link) status() EngineStatus {
	s := EngineStatus{Connected: l.IsConnected(), URL: l.url(), ReconnectsTotal: l.reconnects.Load(), Embedded: l.embedded != nil}
	if why := l.why(); why != nil {
		s.Error = why.Error()
	}
	if l.embedded != nil {
		s.Trouble = l.embedded.words.troubleNow(time.Now())
	}
	return s
}

// url returns where the engine is. The one that runs in the gateway is connected to without an address;
// its own is told to other programs.
func (l *link) url() string {
	if l.embedded == nil {
		return l.ConnectedUrlRedacted()
	}
	if l.embedded.Addr() == nil {
		return "" // it does not listen
	}
	return l.embedded.ClientURL()
}

// flush waits until the engine has everything that was published, unless ctx ends.
func (l *link) flush(ctx context.Context, atMost time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	return l.FlushWithContext(ctx)
}

// close ends the connection, and the engine if it is the gateway's own.
func (l *link) close() {
	l.closing.Store(true)
	l.Conn.Close()
	l.stopEmbedded()
}

func (l *link) stopEmbedded() {
	if l.embedded != nil {
		l.embedded.Shutdown()
		l.embedded.WaitForShutdown()
	}
}
