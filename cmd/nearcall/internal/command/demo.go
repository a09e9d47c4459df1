package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/servertls"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

func (p *program) demoCommand() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Serve a few functions to try things with, until interrupted",
		Long: `Serves functions that show what there is: numbers, text, bytes, times, lists,
maps and structs, errors, and calls that take their time. It prints its address
and what to try, and stops when it is interrupted.

Without --address the socket is $XDG_RUNTIME_DIR/nearcall-demo.sock. If that variable
is not set, it lies in a new private directory below /tmp.

At a tls: address it shows the certificate of --cert, which is needed there. With
--ca it asks callers for certificates of these authorities.`,
		Example: `  nearcall demo
  nearcall demo --address unix:/tmp/demo.sock
  nearcall demo --address tls:0.0.0.0:7000 --cert server.pem --key server.key`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, clean, err := demoAddress(address)
			if err != nil {
				return err
			}
			return errors.Join(p.serveDemo(cmd.Context(), chosen), clean())
		},
	}
	cmd.Flags().StringVar(&address, "address", "", "where to serve, as unix:/path, tcp:host:port or tls:host:port; unix:/path?shm=off gives no shared memory")
	return cmd
}

// demoAddress returns where to serve, and what removes a directory that was made
// for it.
func demoAddress(wanted string) (address string, clean func() error, err error) {
	none := func() error { return nil }
	if wanted != "" {
		return wanted, none, nil
	}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); runtime != "" {
		return "unix:" + filepath.Join(runtime, "nearcall-demo.sock"), none, nil
	}
	directory, err := os.MkdirTemp("/tmp", "nearcall-demo-")
	if err != nil {
		return "", nil, err
	}
	return "unix:" + filepath.Join(directory, "demo.sock"), func() error { return os.RemoveAll(directory) }, nil
}

func (p *program) serveDemo(ctx context.Context, address string) error {
	level := slog.LevelWarn
	if p.verbose {
		level = slog.LevelDebug
	}
	options := []server.Option{server.WithLogger(slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: level})))}
	if p.abstract {
		options = append(options, server.WithAbstractAddresses())
	}
	if p.tls.Certificate != "" {
		certificates, err := servertls.New(servertls.Files{Certificate: p.tls.Certificate, Key: p.tls.Key, ClientAuthorities: p.tls.Authorities})
		if err != nil {
			return err
		}
		options = append(options, certificates.Option())
	}
	s, err := server.New(options...)
	if err != nil {
		return err
	}
	demo.Register(s)
	listener, err := s.Listen(ctx, address)
	if err != nil {
		return err
	}
	p.printInvitation(servedAddress(listener, address))
	return s.Serve(ctx, listener)
}

// servedAddress is where the demo serves: as the user wrote it, with the port that the kernel
// chose for port 0, and without parameters, which are the server's own.
func servedAddress(listener net.Listener, address string) string {
	address, _, _ = strings.Cut(address, "?")
	network, place, _ := strings.Cut(address, ":")
	host, _, err := net.SplitHostPort(place)
	_, port, errOfListener := net.SplitHostPort(listener.Addr().String())
	if network == "unix" || err != nil || errOfListener != nil {
		return address
	}
	return network + ":" + net.JoinHostPort(host, port)
}

// calledAddress is what a caller on this machine writes for that. A server that listens at all
// addresses has none that a certificate could be for.
func calledAddress(served string) string {
	network, place, _ := strings.Cut(served, ":")
	host, port, err := net.SplitHostPort(place)
	if network == "unix" || err != nil {
		return served
	}
	if at := net.ParseIP(host); host == "" || at != nil && at.IsUnspecified() {
		host = "localhost"
	}
	return network + ":" + net.JoinHostPort(host, port)
}

// callerFiles are the options that callers of a tls: address need. Only its user knows their files.
func (p *program) callerFiles(address string) string {
	switch {
	case !strings.HasPrefix(address, "tls:"):
		return ""
	case p.tls.Authorities == "":
		return " --ca ca.pem"
	}
	return " --ca " + p.tls.Authorities + " --cert worker.pem --key worker.key"
}

func (p *program) printInvitation(address string) {
	s := styleFor(p.out)
	fmt.Fprintf(p.out, `Serving on %[1]s. Stop with Ctrl-C. In another terminal:

    %[3]s list%[4]s %[2]s
    %[3]s call%[4]s %[2]s ack 3 4
    %[3]s call%[4]s %[2]s greet '{"name": "Ada", "age": 36, "tags": ["first"]}'
    %[3]s call --timeout 100ms%[4]s %[2]s sleep 5000
    %[3]s gen python%[4]s %[2]s
`, s.bold(address), s.bold(calledAddress(address)), self(), p.callerFiles(address))
}

// self is what a user writes for this program: its path where a shell would not
// find it, or would find another.
func self() string {
	const name = "nearcall"
	path, err := os.Executable()
	if err != nil {
		return name
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return path
	}
	here, errHere := os.Stat(path)
	there, errThere := os.Stat(found)
	if errHere != nil || errThere != nil || !os.SameFile(here, there) {
		return path
	}
	return name
}
