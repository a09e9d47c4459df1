package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/server"
)

// count reads a file that its caller has opened.
func count(file *os.File) (int64, error) {
	defer file.Close()
	return io.Copy(io.Discard, file)
}

// serveFiles stands for the server that a real program finds running.
func serveFiles(ctx context.Context, address string) (served chan error) {
	s, err := server.New(server.WithLogger(slog.New(slog.DiscardHandler)), server.WithFileDescriptors(nil))
	if err != nil {
		panic(err)
	}
	err = errors.Join(s.Register("count", count), s.Register("pipe", os.Pipe))
	listener, failure := s.Listen(ctx, address)
	if err = errors.Join(err, failure); err != nil {
		panic(err)
	}
	served = make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	return served
}

// A function reads what its caller has opened, and gives what it has opened itself.
func Example_files() {
	directory, err := os.MkdirTemp("", "nc")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(directory)
	ctx, stop := context.WithCancel(context.Background())
	served := serveFiles(ctx, "unix:"+directory+"/s")
	c, err := client.New("unix:" + directory + "/s")
	if err != nil {
		panic(err)
	}

	pipe, err := client.Call[struct{ Reader, Writer *os.File }](ctx, c, "pipe")
	if err != nil {
		panic(err)
	}
	reader, writer := pipe.Reader, pipe.Writer
	fmt.Fprint(writer, "through a pipe")
	writer.Close()
	bytes, err := client.Call[int64](ctx, c, "count", reader)
	reader.Close()
	fmt.Println(bytes, err)

	c.Close()
	stop()
	<-served
	// Output: 14 <nil>
}
