// Command server serves two functions that pass files. Its callers need no right to
// the pages, and it needs none to the callers' files.
//
//	server unix:/tmp/files/nearcall.sock DIRECTORY-OF-PAGES
package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: server ADDRESS DIRECTORY")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, address, directory string) error {
	pages, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer pages.Close()
	s, err := server.New(server.WithFileDescriptors(mayPassFiles))
	if err != nil {
		return err
	}
	s.Register("compress", compress, server.Params("source", "target"),
		server.Doc("Compresses one open file into another. Returns how many bytes were read."))
	s.Register("open_page", func(name string) (*os.File, error) { return openPage(pages, name) },
		server.Params("name"), server.Doc("Opens a page for reading."))
	return s.ListenAndServe(ctx, address)
}

// mayPassFiles allows files to the server's own user alone, whoever else may call.
func mayPassFiles(peer server.Peer) bool { return peer.UserID == uint32(os.Geteuid()) }

// compress owns both files, so it closes them.
func compress(source, target *os.File) (read int64, err error) {
	defer source.Close()
	defer func() { err = errors.Join(err, target.Close()) }()
	compressed := gzip.NewWriter(target)
	if read, err = io.Copy(compressed, source); err != nil {
		return 0, err
	}
	return read, compressed.Close()
}

// openPage returns an open file: the server closes it when it was sent.
func openPage(pages *os.Root, name string) (*os.File, error) {
	page, err := pages.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, status.Errorf(status.NotFound, "there is no page %s", name)
	}
	return page, err
}
