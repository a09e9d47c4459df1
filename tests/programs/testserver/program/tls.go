package program

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/servertls"
)

// tlsFlags are the files of tls: addresses. On SIGHUP they are read again.
type tlsFlags struct {
	files servertls.Files
	asked bool
}

func newTLSFlags() *tlsFlags {
	f := new(tlsFlags)
	flag.StringVar(&f.files.Certificate, "tls-cert", "", "see servertls.Files.Certificate; needed for tls: addresses")
	flag.StringVar(&f.files.Key, "tls-key", "", "see servertls.Files.Key")
	flag.StringVar(&f.files.ClientAuthorities, "tls-client-ca", "", "see servertls.Files.ClientAuthorities")
	flag.StringVar(&f.files.Revoked, "tls-revoked", "", "see servertls.Files.Revoked")
	flag.BoolVar(&f.asked, "tls-asked", false, "clients may do without a certificate")
	return f
}

// options returns the options for tls: addresses, if there is a certificate.
func (f *tlsFlags) options() []server.Option {
	if f.files.Certificate == "" {
		return nil
	}
	if f.asked {
		f.files.Clients = servertls.Asked
	}
	certificates, err := servertls.New(f.files)
	if err != nil {
		fail(err)
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	go func() {
		for range again {
			if err := certificates.Reload(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}()
	return []server.Option{certificates.Option()}
}
