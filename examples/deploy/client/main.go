// Command client calls without a pause until SIGTERM or a call that fails, and says what
// became of its calls.
//
//	client unix:/run/demo/nearcall.sock
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/client"
)

func main() {
	// A call may be sent five times where it was certainly not executed, all within two seconds.
	c, err := client.New(os.Args[1], client.WithAttempts(5), client.WithTimeout(2*time.Second))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer c.Close()
	stop, release := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer release()
	transfer := client.Func3[string, string, int64, int64](c, "transfer")
	calls, failed, server := 0, 0, int64(0)
	for stop.Err() == nil {
		calls++
		process, err := transfer(context.Background(), "alice", "bob", int64(calls))
		if err != nil {
			failed++
			fmt.Println("failed:", err)
			break
		}
		if process != server {
			server = process
			fmt.Println("server", server)
		}
	}
	fmt.Printf("calls %d, failed %d\n", calls, failed)
}
