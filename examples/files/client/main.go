// Command client is the client in Go:
//
//	client unix:/tmp/files/nearcall.sock
package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/nearcall/nearcall/client"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: client ADDRESS")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	c, err := client.New(address)
	if err != nil {
		return err
	}
	defer c.Close()

	page, err := client.Call[*os.File](ctx, c, "open_page", "hello.txt")
	if err != nil {
		return err
	}
	defer page.Close()
	text, err := io.ReadAll(page)
	if err != nil {
		return err
	}
	fmt.Printf("page: %s", text)

	// Both sides share the position in a file.
	if _, err := page.Seek(0, io.SeekStart); err != nil {
		return err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reader.Close()
	read, err := client.Call[int64](ctx, c, "compress", page, writer)
	writer.Close() // the function has closed its own
	if err != nil {
		return err
	}
	unpacked, err := gzip.NewReader(reader)
	if err != nil {
		return err
	}
	back, err := io.ReadAll(unpacked)
	fmt.Printf("compressed: %d bytes, and back: %s", read, back)
	return err
}
