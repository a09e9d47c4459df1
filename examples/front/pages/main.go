// Command pages is a web server in Go whose connections a front gives it. Only its
// listener is another than that of any net/http server.
//
//	pages unix:/run/site/pages.sock pages.example [site.pem]
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

func main() {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		fmt.Fprintln(os.Stderr, "usage: pages ADDRESS HOST [CERTIFICATE], as unix:/run/site/pages.sock pages.example site.pem")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := handoff.Listen(os.Args[1])
	if err == nil {
		err = serve(ctx, listener, os.Args[2], os.Args[3:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, listener *handoff.Listener, host string, certificate []string) error {
	server := &http.Server{Handler: pages{host}, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() {
		if len(certificate) > 0 {
			served <- handoff.ServeTLS(server, listener, certificate[0], certificate[0])
		} else {
			served <- handoff.Serve(server, listener)
		}
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// What has begun is finished. All other connections go back to the front, which gives
	// them to another process.
	return handoff.Shutdown(draining, server)
}

// pages answers requests for one host.
type pages struct{ host string }

func (p pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !handoff.HostMatches(r.Host, p.host) {
		// The client kept its connection and now asks for another site: the front
		// gives the connection to that one.
		err := handoff.HandBackRequest(r.Context(), w, r)
		if errors.Is(err, http.ErrNotSupported) {
			http.Error(w, "That site is not served on this connection.", http.StatusMisdirectedRequest)
		}
		return
	}
	fmt.Fprintf(w, "Go, process %d: %s %s for %s\n", os.Getpid(), r.Proto, r.URL.Path, r.RemoteAddr)
}
