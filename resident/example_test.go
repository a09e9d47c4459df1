package resident_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/nearcall/nearcall/resident"
)

// A program becomes resident by one line. It is built and started as before; who wants
// it fast starts it by nearcall-run.
func ExampleMain() {
	resident.Main(resident.Options{}, func(ctx context.Context, inv *resident.Invocation) int {
		fmt.Println("hello from", inv.Dir)
		return 0
	})
}

// New programs run all their runs in one process, at the same time. They use what
// their Invocation has.
func ExampleMain_concurrent() {
	resident.Main(resident.Options{Mode: resident.Concurrent, Idle: time.Hour}, func(ctx context.Context, inv *resident.Invocation) int {
		for _, name := range inv.Args[1:] {
			file, err := os.Open(inv.Path(name))
			if err != nil {
				_, _ = fmt.Fprintln(inv.Stderr, err)
				return 1
			}
			_, err = io.Copy(inv.Stdout, file)
			_ = file.Close()
			if err != nil || ctx.Err() != nil {
				return 1
			}
		}
		return 0
	})
}

// A resident's functions can be called beside its commands, and what all runs need is
// made ready once. Serve would be the method of a server.Server.
func ExampleOptions() {
	resident.Main(resident.Options{
		Warm: func() error { return nil }, // open data bases, parse templates
		Serve: func(ctx context.Context, listener net.Listener) error {
			<-ctx.Done()
			return listener.Close()
		},
	}, func(ctx context.Context, inv *resident.Invocation) int {
		code, err := inv.Execute(ctx, "less", inv.Path("README.md")) // with the caller's terminal
		if err != nil {
			_, _ = fmt.Fprintln(inv.Stderr, err)
			return 1
		}
		return code
	})
}
