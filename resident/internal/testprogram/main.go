// Command testprogram is what the tests of package resident make resident. Its mode
// is the last part of its own name, after a dot: testprogram.pool. Variables of the
// resident's start choose the other options.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nearcall/nearcall/resident"
	_ "github.com/nearcall/nearcall/resident/internal/beforemain"
)

func main() {
	if os.Getenv("TEST_TAKE") != "" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
	}
	resident.Main(options(), func(ctx context.Context, inv *resident.Invocation) int {
		if len(inv.Args) < 2 {
			return report(ctx, inv)
		}
		command, known := commands()[inv.Args[1]]
		if !known {
			_, _ = fmt.Fprintf(inv.Stderr, "testprogram: there is no command %q\n", inv.Args[1])
			return 64
		}
		return command(ctx, inv)
	})
}

func options() resident.Options {
	modes := map[string]resident.Mode{".pool": resident.Pool, ".serial": resident.Serial, ".concurrent": resident.Concurrent}
	o := resident.Options{Mode: modes[filepath.Ext(os.Args[0])]}
	if idle, err := time.ParseDuration(os.Getenv("TEST_IDLE")); err == nil {
		o.Idle = idle
	}
	if workers, err := strconv.Atoi(os.Getenv("TEST_WORKERS")); err == nil {
		o.Workers = workers
	}
	if mode, err := strconv.Atoi(os.Getenv("TEST_MODE")); err == nil {
		o.Mode = resident.Mode(mode)
	}
	if path := os.Getenv("TEST_WATCH"); path != "" {
		o.Watch = []string{path}
	}
	if name := os.Getenv("TEST_ENVIRONMENT"); name != "" {
		o.Environment = []string{name}
	}
	if path := os.Getenv("TEST_WARM"); path != "" {
		o.Warm = func() error { return warm(path) }
	}
	switch os.Getenv("TEST_SERVE") {
	case "":
	case "fail":
		o.Serve = func(context.Context, net.Listener) error { return errors.New("deliberately") }
	default:
		o.Serve = serve
	}
	return o
}

// warm adds a line to a file, and fails where there is none.
func warm(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, "warm", os.Getpid())
	return errors.Join(err, file.Close())
}

// serve answers each line with its length.
func serve(ctx context.Context, listener net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return nil
		}
		go func() {
			defer func() { _ = conn.Close() }()
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				_, _ = io.WriteString(conn, strconv.Itoa(len(lines.Text()))+"\n")
			}
		}()
	}
}
