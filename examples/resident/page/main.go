// Command page turns Markdown into pages, for the browser and for the terminal. It is
// an ordinary program of cobra, viper, goldmark and chroma that one line, in main,
// makes resident.
package main

import (
	"bytes"
	"context"
	"net"
	"strings"

	"github.com/nearcall/nearcall/resident"
	"github.com/nearcall/nearcall/resident/residentcobra"
	"github.com/nearcall/nearcall/server"
)

// One process runs all that callers want at the same time: newRoot and its commands
// use the caller's directory, variables and streams and not those of the process.
// Without Nearcall this would be: newRoot().Execute().
func main() {
	residentcobra.Main(resident.Options{Mode: resident.Concurrent, Warm: warm, Serve: serve}, newRoot)
}

// warm renders what is slow the first time, before the first caller has to wait for it:
// chroma reads its descriptions of languages when they are needed.
func warm() error {
	settings, text, err := split(defaults(), []byte("# Ready\n\n```go\npackage main\n```\n\n```sh\nls\n```\n"))
	if err != nil {
		return err
	}
	return writeHTML(new(bytes.Buffer), settings, text)
}

// serve offers functions beside the commands, on the resident's own socket.
func serve(ctx context.Context, listener net.Listener) error {
	s, err := server.New()
	if err != nil {
		return err
	}
	s.Register("html", html, server.Params("markdown"), server.Doc("Turns Markdown into a page."))
	return s.Serve(ctx, listener)
}

func html(markdown string) (string, error) {
	settings, text, err := split(defaults(), []byte(markdown))
	if err != nil {
		return "", err
	}
	var page strings.Builder
	err = writeHTML(&page, settings, text)
	return page.String(), err
}
