// Command restart is a web server that replaces itself: start it again, or send SIGHUP, and
// the new process has the port before the old one stops. No connection is refused, and no
// request lost.
//
//	restart 127.0.0.1:8080 unix:/run/site/control.sock
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/nearcall/nearcall/handoff"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: restart ADDRESS CONTROL, as 127.0.0.1:8080 unix:/run/site/control.sock")
	}
	if err := serve(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal("restart: ", err)
	}
}

func serve(ctx context.Context, address, control string) error {
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	site, err := handoff.Succeed(ctx, control, func() ([]handoff.Item, error) {
		listener, err := net.Listen("tcp", address)
		return []handoff.Item{{Name: "web", Listener: listener}}, err
	})
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(answer)}
	go handoff.Serve(server, site.Items[0].Listener)
	if err := site.Ready(ctx); err != nil {
		return err
	}
	go startAgain(hangUps)
	<-site.Replaced()
	return handoff.Shutdown(ctx, server)
}

func answer(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "process %d: %s\n", os.Getpid(), r.URL.Path)
}

// startAgain starts the next process, from the file that lies there then.
func startAgain(hangUps <-chan os.Signal) {
	for range hangUps {
		next := exec.Command(os.Args[0], os.Args[1:]...)
		next.Stdout, next.Stderr = os.Stdout, os.Stderr
		if err := next.Start(); err != nil {
			log.Print("restart: ", err)
			continue
		}
		go next.Wait() // One that fails is no longer there; this one goes on serving.
	}
}
