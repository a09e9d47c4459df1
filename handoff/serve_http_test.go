//go:build unix

package handoff_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// A relay gives what it accepts, and what comes back, to one backend after the other.
type relay struct {
	t        *testing.T
	listener *net.TCPListener

	mutex   sync.Mutex
	peer    *handoff.Peer
	renewed chan struct{} // closed when there is another peer
	idle    atomic.Int64  // connections that came back between two requests
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	r := &relay{t: t, listener: l.(*net.TCPListener), renewed: make(chan struct{})}
	go func() {
		for {
			c, err := r.listener.Accept()
			if err != nil {
				return
			}
			go r.give(c)
		}
	}()
	return r
}

// use makes a peer the one that gets all.
func (r *relay) use(address string) {
	r.t.Helper()
	peer, err := handoff.Dial(r.t.Context(), address, handoff.WithTakeBack(r.takeBack))
	must(r.t, err)
	r.t.Cleanup(func() { peer.Close() })
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.peer = peer
	close(r.renewed)
	r.renewed = make(chan struct{})
}

func (r *relay) takeBack(c *handoff.Conn) {
	if string(c.Meta().Message) != handoff.MessageIdle {
		r.t.Errorf("a connection came back as %q", c.Meta().Message)
	}
	r.idle.Add(1)
	// Waits as a front does, so that it is given for a request.
	if _, err := handoff.PeekHTTP1(r.t.Context(), c); err != nil {
		c.Close()
		return
	}
	r.give(c)
}

func (r *relay) give(c net.Conn) {
	for {
		r.mutex.Lock()
		peer, renewed := r.peer, r.renewed
		r.mutex.Unlock()
		if peer != nil && peer.SendConn(r.t.Context(), c, handoff.Meta{Name: "route"}) == nil {
			return
		}
		select {
		case <-renewed:
		case <-r.t.Context().Done():
			c.Close()
			return
		}
	}
}

// requestsWanted is how many requests are to be answered while servers are replaced;
// more where the environment says so.
func requestsWanted(t *testing.T) int64 {
	t.Helper()
	text := os.Getenv("NEARCALL_SHUTDOWN_REQUESTS")
	if text == "" {
		return 10_000
	}
	count, err := strconv.ParseInt(text, 10, 64)
	must(t, err)
	return count
}

// Servers are stopped under load, again and again, while clients keep their connections.
// Each request is answered.
func TestShutdownLosesNothing(t *testing.T) {
	for name, secure := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) { stopUnderLoad(t, secure) })
	}
}

func stopUnderLoad(t *testing.T, secure bool) {
	r := newRelay(t)
	certificate := httptest.NewUnstartedServer(nil)
	certificate.EnableHTTP2 = true
	certificate.StartTLS()
	certificate.Close()
	var config *tls.Config
	if secure {
		config = certificate.TLS
	}
	stop := r.serve(config)
	var answered atomic.Int64
	answers := make(chan struct{}, 1<<20)
	wanted := requestsWanted(t)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	const clientsCount, requestsEach = 8, 500
	for range clientsCount {
		clients.Go(func() {
			request := keepingClient(t, r.listener.Addr().String())
			if secure {
				request = secureClient(t, r.listener.Addr().String(), certificate.Client().Transport.(*http.Transport).TLSClientConfig)
			}
			for ctx.Err() == nil {
				if err := request(); err != nil {
					t.Errorf("a request was lost: %v", err)
					return
				}
				answered.Add(1)
				answers <- struct{}{}
			}
		})
	}
	generation := 0
	for ; answered.Load() < wanted && !t.Failed(); generation++ {
		for range requestsEach {
			select {
			case <-answers:
			case <-time.After(patience):
				t.Fatal("no request is answered any more")
			}
		}
		next := r.serve(config)
		must(t, stop())
		stop = next
	}
	cancel()
	clients.Wait()
	must(t, stop())
	t.Logf("%d requests, %d servers, %d connections came back between two requests", answered.Load(), generation, r.idle.Load())
	if !secure && r.idle.Load() == 0 {
		t.Error("no connection came back between two requests")
	}
}

// serve starts a server, and returns what stops it.
func (r *relay) serve(config *tls.Config) (stop func() error) {
	r.t.Helper()
	address := newAddress(r.t)
	l, err := handoff.Listen(address)
	must(r.t, err)
	server := &http.Server{TLSConfig: config, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		fmt.Fprintf(w, "%s %d", req.URL.Path, len(body))
	})}
	served := make(chan error, 1)
	go func() {
		if config != nil {
			served <- handoff.ServeTLS(server, l, "", "")
			return
		}
		served <- handoff.Serve(server, l)
	}()
	r.use(address)
	return func() error {
		ctx, cancel := context.WithTimeout(r.t.Context(), patience)
		defer cancel()
		err := handoff.Shutdown(ctx, server)
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	}
}

// keepingClient sends requests by one connection as long as the server lets it, and never
// one twice.
func keepingClient(t *testing.T, address string) func() error {
	var connection net.Conn
	var reader *bufio.Reader
	t.Cleanup(func() {
		if connection != nil {
			connection.Close()
		}
	})
	number := 0
	return func() error {
		if connection == nil {
			dialled, err := net.Dial("tcp", address)
			if err != nil {
				return err
			}
			connection, reader = dialled, bufio.NewReader(dialled)
		}
		number++
		body := strings.Repeat("x", number%3)
		request, err := http.NewRequest(http.MethodPost, "http://host/"+strconv.Itoa(number), strings.NewReader(body))
		if err != nil {
			return err
		}
		if err := request.Write(connection); err != nil {
			return err
		}
		response, err := http.ReadResponse(reader, request)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(response.Body)
		if want := fmt.Sprintf("/%d %d", number, len(body)); err != nil || string(text) != want {
			return fmt.Errorf("got %q, %v, want %q", text, err, want)
		}
		if response.Close {
			connection.Close()
			connection = nil
		}
		return nil
	}
}

func secureClient(t *testing.T, address string, config *tls.Config) func() error {
	transport := &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return func() error {
		// A request with a body that cannot be read again is not sent again.
		request, err := http.NewRequest(http.MethodPost, "https://example.com/", io.MultiReader(strings.NewReader("x")))
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.ProtoMajor != 2 {
			return fmt.Errorf("it was %s", response.Proto)
		}
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
}

// A request that has begun when the server is told to stop is answered, though its client
// has sent only a part, or two at once.
func TestShutdownBetweenBytes(t *testing.T) {
	for name, parts := range map[string][]string{
		"half a head": {"GET /1 HTTP/1.1\r\nHost: h\r\n", "Connection: close\r\n\r\n"},
		"two at once": {"GET /0 HTTP/1.1\r\nHost: h\r\n\r\nGET /1 HTTP/1.1\r\nHo", "st: h\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRelay(t)
			stop := r.serve(nil)
			connection, err := net.Dial("tcp", r.listener.Addr().String())
			must(t, err)
			defer connection.Close()
			_, err = io.WriteString(connection, parts[0])
			must(t, err)
			reader := bufio.NewReader(connection)
			if strings.Contains(parts[0], "/0") {
				response, err := http.ReadResponse(reader, nil)
				must(t, err)
				_, err = io.Copy(io.Discard, response.Body)
				must(t, err)
			}
			stopped := make(chan error, 1)
			old := r.peer
			next := r.serve(nil)
			go func() { stopped <- stop() }()
			<-old.Done() // It is being stopped.
			_, err = io.WriteString(connection, parts[1])
			must(t, err)
			response, err := http.ReadResponse(reader, nil)
			must(t, err)
			if text, err := io.ReadAll(response.Body); err != nil || string(text) != "/1 0" {
				t.Errorf("got %q, %v", text, err)
			}
			must(t, <-stopped)
			must(t, next())
		})
	}
}

// A connection that cannot go back is left to its client for a while, and not for ever.
func TestShutdownWithoutTheWayBack(t *testing.T) {
	address := newAddress(t)
	l, err := handoff.Listen(address)
	must(t, err)
	server := &http.Server{Handler: http.NotFoundHandler()}
	go handoff.Serve(server, l)
	peer, err := handoff.Dial(t.Context(), address)
	must(t, err)
	defer peer.Close()
	client, given := tcpPair(t)
	must(t, peer.SendConn(t.Context(), given, handoff.Meta{}))
	_, err = io.WriteString(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	must(t, err)
	reader := bufio.NewReader(client)
	response, err := http.ReadResponse(reader, nil)
	must(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	must(t, err)
	must(t, handoff.Shutdown(t.Context(), server))
	must(t, client.SetReadDeadline(time.Now().Add(patience)))
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("got %v, want the end", err)
	}
}
