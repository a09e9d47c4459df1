package handoff_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

var errNobodyListens = errors.New("nobody listens")

// A pipeListener is one within the process, whose time a test may set.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	client, served := net.Pipe()
	select {
	case l.conns <- served:
		return client, nil
	case <-l.closed:
		return nil, errNobodyListens
	}
}

// A kept site is a server, and a client that keeps its connection to it.
type keptSite struct {
	t      *testing.T
	server *http.Server
	client *http.Client
	ended  chan error
	scheme string
}

func newKeptSite(t *testing.T, protocol string, handler http.HandlerFunc) *keptSite {
	t.Helper()
	l := newPipeListener()
	transport := &http.Transport{DialContext: l.dial}
	s := &keptSite{t: t, server: &http.Server{Handler: handler}, client: &http.Client{Transport: transport},
		ended: make(chan error, 1), scheme: "http"}
	serve := func() error { return handoff.Serve(s.server, l) }
	if protocol != "HTTP/1" {
		s.scheme = "https"
		s.server.TLSConfig, transport.TLSClientConfig = certified(t, protocol == "HTTP/2")
		transport.ForceAttemptHTTP2 = protocol == "HTTP/2"
		serve = func() error { return handoff.ServeTLS(s.server, l, "", "") }
	}
	go func() { s.ended <- serve() }()
	return s
}

func certified(t *testing.T, http2 bool) (server, client *tls.Config) {
	t.Helper()
	made := httptest.NewUnstartedServer(nil)
	made.EnableHTTP2 = http2
	made.StartTLS()
	defer made.Close()
	return made.TLS.Clone(), made.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}

// ask sends a request that is never sent twice.
func (s *keptSite) ask(path string) (*http.Response, error) {
	request, err := http.NewRequest(http.MethodPost, s.scheme+"://example.com"+path, io.MultiReader(strings.NewReader("x")))
	if err != nil {
		return nil, err
	}
	return s.client.Do(request)
}

func (s *keptSite) read(response *http.Response, err error) {
	s.t.Helper()
	must(s.t, err)
	_, err = io.Copy(io.Discard, response.Body)
	must(s.t, errors.Join(err, response.Body.Close()))
}

// A request that is being served for long when the server is told to stop costs its client
// nothing: the answer says that it is the last one; or it had begun before, and then there
// is time for one more.
func TestShutdownDuringLongRequests(t *testing.T) {
	const long = 3 * time.Second
	for _, protocol := range []string{"HTTP/1", "HTTP/1 in TLS", "HTTP/2"} {
		for name, headed := range map[string]bool{"nothing is answered": false, "a part is answered": true} {
			t.Run(protocol+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { stopDuring(t, protocol, headed, long) })
			})
		}
	}
}

func stopDuring(t *testing.T, protocol string, headed bool, long time.Duration) {
	stopping := make(chan struct{})
	site := newKeptSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/long" {
			return
		}
		if headed {
			w.(http.Flusher).Flush()
			<-stopping
		} else {
			close(stopping)
		}
		time.Sleep(long)
		_, _ = io.WriteString(w, "the end")
	})
	stopped := make(chan error, 1)
	stop := func() { stopped <- handoff.Shutdown(t.Context(), site.server) }
	if !headed {
		go func() { <-stopping; stop() }()
	}
	response, err := site.ask("/long")
	if headed {
		go stop()
		close(stopping)
	}
	site.read(response, err)
	if !headed && response.ProtoMajor == 1 && !response.Close {
		t.Error("the answer does not say that it is the last one")
	}
	if headed {
		time.Sleep(900 * time.Millisecond)
		response, err := site.ask("/next")
		if err != nil {
			t.Fatalf("the next request was lost: %v", err)
		}
		site.read(response, nil)
	}
	if _, err := site.ask("/after"); !errors.Is(err, errNobodyListens) {
		t.Errorf("the connection is used again: %v", err)
	}
	must(t, <-stopped)
	if err := <-site.ended; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve returns %v", err)
	}
}

// That a listener is closed already is no failure of Shutdown.
func TestShutdownOfIdleServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server, ended := &http.Server{}, make(chan error, 1)
	accepting := make(chan struct{})
	server.BaseContext = func(net.Listener) context.Context { close(accepting); return context.Background() }
	go func() { ended <- handoff.Serve(server, l) }()
	<-accepting
	must(t, handoff.Shutdown(t.Context(), server))
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve returns %v", err)
	}
}

// Shutdown may be called several times at once, as by a program that does so for each signal:
// every one of the calls returns when the last answer is over.
func TestShutdownSeveralTimesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, answer := make(chan struct{}), make(chan struct{})
		site := newKeptSite(t, "HTTP/1", func(http.ResponseWriter, *http.Request) { close(begun); <-answer })
		asked := make(chan error, 1)
		go func() {
			response, err := site.ask("/")
			if err == nil {
				err = response.Body.Close()
			}
			asked <- err
		}()
		<-begun
		const times = 3
		stopped := make(chan error, times)
		for range times {
			go func() { stopped <- handoff.Shutdown(t.Context(), site.server) }()
		}
		synctest.Wait() // all of them wait for the answer
		close(answer)
		must(t, <-asked)
		for range times {
			must(t, <-stopped)
		}
		if err := <-site.ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve returns %v", err)
		}
	})
}

// awaitCollected collects garbage until something is gone.
func awaitCollected(t *testing.T, what string, collected <-chan struct{}) {
	t.Helper()
	for end := time.After(patience); ; {
		runtime.GC()
		select {
		case <-collected:
			return
		case <-end:
			t.Fatalf("after %v %s is kept", patience, what)
		default:
			runtime.Gosched()
		}
	}
}

// A server may listen anew, as often as its listener fails, and keeps none of those.
func TestListenersAreForgotten(t *testing.T) {
	server, forgotten := &http.Server{}, make(chan struct{})
	func() {
		l, ended := newPipeListener(), make(chan error, 1)
		runtime.AddCleanup(l, func(struct{}) { close(forgotten) }, struct{}{})
		go func() { ended <- handoff.Serve(server, l) }()
		must(t, l.Close())
		<-ended
	}()
	awaitCollected(t, "a listener that failed", forgotten)
	must(t, handoff.Shutdown(t.Context(), server))
}

// A server that ended in another way than by Shutdown is forgotten.
func TestServersAreForgotten(t *testing.T) {
	forgotten := make(chan struct{})
	func() {
		server, ended := &http.Server{}, make(chan error, 1)
		runtime.AddCleanup(server, func(struct{}) { close(forgotten) }, struct{}{})
		l := newPipeListener()
		go func() { ended <- handoff.Serve(server, l) }()
		must(t, l.Close())
		<-ended
	}()
	awaitCollected(t, "the server", forgotten)
}

// Listeners of one server may be served from the same moment on.
func TestServeAtOnce(t *testing.T) {
	for range 50 {
		server := &http.Server{Handler: http.NotFoundHandler()}
		var clients, serving sync.WaitGroup
		begin := make(chan struct{})
		for range 4 {
			l := newPipeListener()
			serving.Go(func() { <-begin; _ = handoff.Serve(server, l) })
			clients.Go(func() {
				if err := askOnce(t.Context(), l); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		clients.Wait()
		must(t, handoff.Shutdown(t.Context(), server))
		serving.Wait()
	}
}

func askOnce(ctx context.Context, l *pipeListener) error {
	c, err := l.dial(ctx, "", "")
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	_, err = http.ReadResponse(bufio.NewReader(c), nil)
	return err
}

// abilities are those that handlers ask of what they answer by.
func abilities(w http.ResponseWriter) (has [7]bool) {
	_, has[0] = w.(http.Flusher)
	_, has[1] = w.(http.Hijacker)
	_, has[2] = w.(io.ReaderFrom)
	_, has[3] = w.(io.StringWriter)
	_, has[4] = w.(http.Pusher)
	_, has[5] = w.(interface{ CloseNotify() <-chan bool })
	has[6] = http.NewResponseController(w).SetWriteDeadline(time.Time{}) == nil
	return has
}

// What handlers answer by can do what that of a server of their own can.
func TestHandlersSeeNoDifference(t *testing.T) {
	for _, protocol := range []string{"HTTP/1", "HTTP/2"} {
		t.Run(protocol, func(t *testing.T) {
			seen := make(chan [7]bool, 2)
			handler := func(w http.ResponseWriter, _ *http.Request) { seen <- abilities(w) }
			site := newKeptSite(t, protocol, handler)
			site.read(site.ask("/"))
			site.client.CloseIdleConnections()
			must(t, handoff.Shutdown(t.Context(), site.server))
			own := httptest.NewUnstartedServer(http.HandlerFunc(handler))
			own.EnableHTTP2 = protocol == "HTTP/2"
			own.StartTLS()
			defer own.Close()
			response, err := own.Client().Get(own.URL)
			must(t, err)
			must(t, response.Body.Close())
			if got, want := <-seen, <-seen; got != want {
				t.Errorf("it can %v, want %v", got, want)
			}
		})
	}
}
