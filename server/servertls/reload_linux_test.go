package servertls_test

import (
	"os"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
	"golang.org/x/sys/unix"
)

// TestFormerFilesDoNotComeBack: a Reload that is slow has read the former list when another one
// reads the new list. What counts in the end is the new list.
func TestFormerFilesDoNotComeBack(t *testing.T) {
	p := newPlace(t)
	list, err := os.ReadFile(p.path("revoked-list.pem"))
	must(t, err)
	files := p.asks()
	files.Revoked = p.path("numbers")
	must(t, authority.Put(string(p), "numbers", nil))
	certificates := newCertificates(t, files)
	address := serve(t, certificates)

	// The former list is a pipe, so that the first Reload waits for the rest of it.
	must(t, unix.Mkfifo(p.path("pipe"), 0o600))
	must(t, os.Rename(p.path("pipe"), files.Revoked))
	reloaded := make(chan error, 2)
	reload := func() { reloaded <- certificates.Reload() }
	go reload()
	former, err := os.OpenFile(files.Revoked, os.O_WRONLY, 0) // waits until it is being read
	must(t, err)
	must(t, authority.Put(string(p), "numbers", list))
	go reload()
	ended := 0
	select {
	case err := <-reloaded:
		must(t, err)
		ended++
	case <-time.After(200 * time.Millisecond):
		// It waits for the first one, as it should.
	}
	must(t, former.Close())
	for ; ended < 2; ended++ {
		select {
		case err := <-reloaded:
			must(t, err)
		case <-time.After(patience):
			t.Fatal("Reload does not return")
		}
	}
	refusal{status.Unauthenticated, "was revoked"}.check(t, ack(t, newClient(t, address, clienttls.With(p.shows("revoked")))))
}
