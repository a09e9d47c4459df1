// Command testbackend is what the tests of front give connections to: a plain
// http.Server on connections that were handed over.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

func main() {
	var s settings
	flag.StringVar(&s.socket, "socket", "", "where the front gives connections, as unix:/path")
	flag.StringVar(&s.name, "name", "", "what answers begin with")
	flag.StringVar(&s.hosts, "hosts", "", "hosts that are served, joined by commas; others are handed back")
	flag.StringVar(&s.certificate, "certificate", "", "PEM file with certificate and key: speak TLS")
	flag.StringVar(&s.direct, "direct", "", "TCP address to serve as well, without a front")
	flag.BoolVar(&s.hold, "hold", false, "take no connection")
	flag.IntVar(&s.window, "window", 0, "unanswered connections to allow")
	flag.Parse()
	if err := s.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type settings struct {
	socket, name, hosts, certificate, direct string

	hold   bool
	window int
}

func (s *settings) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	options := []handoff.Option{handoff.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil)))}
	if s.window > 0 {
		options = append(options, handoff.WithWindow(s.window))
	}
	listener, err := handoff.Listen(s.socket, options...)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if s.hold {
		<-ctx.Done()
		return listener.Close()
	}
	server := &http.Server{Handler: s.handler()}
	served := make(chan error, 1)
	go func() { served <- s.serve(server, listener) }()
	if s.direct != "" {
		go s.serveDirect(server)
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	const drainTimeout = 10 * time.Second
	draining, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	return handoff.Shutdown(draining, server)
}

func (s *settings) serve(server *http.Server, listener net.Listener) error {
	if s.certificate != "" {
		return handoff.ServeTLS(server, listener, s.certificate, s.certificate)
	}
	return handoff.Serve(server, listener)
}

func (s *settings) serveDirect(server *http.Server) {
	listener, err := net.Listen("tcp", s.direct)
	if err == nil {
		err = s.serve(server, listener)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, err)
	}
}

// handler answers with what it knows of the request; "/bytes/N" with so many bytes.
func (s *settings) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.hosts != "" && !slices.Contains(strings.Split(s.hosts, ","), r.Host) {
			if err := handoff.HandBackRequest(r.Context(), w, r); errors.Is(err, http.ErrNotSupported) {
				http.Error(w, err.Error(), http.StatusMisdirectedRequest)
			}
			return
		}
		if count, found := strings.CutPrefix(r.URL.Path, "/bytes/"); found {
			s.bytes(w, count)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "%s pid %d %s %s %s from %s body %q\n", s.name, os.Getpid(), r.Proto, r.Host, r.URL.Path, r.RemoteAddr, body)
	})
}

func (s *settings) bytes(w http.ResponseWriter, text string) {
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", text)
	_, _ = io.CopyN(w, zeros{}, count)
}

type zeros struct{}

func (zeros) Read(buffer []byte) (int, error) {
	clear(buffer)
	return len(buffer), nil
}
