// Command webserver is what short connections and downloads end at: package
// net/http on a TCP port of its own and on connections that are handed to it.
//
//	webserver ADDRESS HOST:PORT FILE
//
// ADDRESS is where a front hands connections over, FILE what there is to download. Both are served by one
// http.Server, so that rows differ only in how a connection came.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/nearcall/nearcall/handoff"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: webserver ADDRESS HOST:PORT FILE")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "webserver:", serve(os.Args[1], os.Args[2], os.Args[3]))
	os.Exit(1)
}

// serve returns only when it cannot go on.
func serve(address, hostPort, file string) error {
	direct, err := listen(hostPort)
	if err != nil {
		return err
	}
	handed, err := handoff.Listen(address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "here") })
	mux.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	server := &http.Server{Handler: mux}
	ended := make(chan error, 2)
	for _, listener := range []net.Listener{direct, handed} {
		go func() { ended <- server.Serve(listener) }()
	}
	fmt.Println("ready", hostPort)
	return <-ended
}
