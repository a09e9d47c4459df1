// Command webserver is what short connections and downloads end at: package
// net/http on a TCP port of its own and on connections that are handed to it.
//
//	webserver ADDRESS HOST:PORT FILE
//
// ADDRESS is where a front hands connections over, FILE what there is to download. Both are answered by
// one handler, as docs/guides/handoff.md has it, so that rows differ only in how a connection came. SIGTERM
// ends it as it ends the programs of that guide.
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
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: webserver ADDRESS HOST:PORT FILE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "webserver:", err)
		os.Exit(1)
	}
}

const drainTimeout = 10 * time.Second

// serve returns when the context ends, or when it cannot go on.
func serve(ctx context.Context, address, hostPort, file string) error {
	direct, err := listen(hostPort)
	if err != nil {
		return err
	}
	handed, err := handoff.Listen(address)
	if err != nil {
		return err
	}
	handler := handlerOf(file)
	// The one that has nothing to do with handing over is as any other.
	plain, behindFront := &http.Server{Handler: handler}, &http.Server{Handler: handler}
	ended := make(chan error, 2)
	go func() { ended <- plain.Serve(direct) }()
	go func() { ended <- handoff.Serve(behindFront, handed) }()
	fmt.Println("ready", hostPort)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	return errors.Join(handoff.Shutdown(draining, behindFront), plain.Close())
}

// host is whose requests are answered.
const host = "bench.example"

func handlerOf(file string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if !handoff.HostMatches(r.Host, host) {
			http.Error(w, "That site is not served on this connection.", http.StatusMisdirectedRequest)
			return
		}
		fmt.Fprintln(w, "here")
	})
	mux.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	return mux
}
