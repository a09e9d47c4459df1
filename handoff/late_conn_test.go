package handoff_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// A slowListener has accepted a connection when it is closed, and says so a little later.
type slowListener struct {
	*pipeListener
	last chan net.Conn
}

func (l *slowListener) Accept() (net.Conn, error) {
	<-l.closed
	time.Sleep(time.Millisecond)
	select {
	case c := <-l.last:
		return c, nil
	default:
		return nil, net.ErrClosed
	}
}

// TestShutdownAnswersWhatWasAcceptedLast: a connection that the kernel had given to the server
// when it was told to stop has its request answered.
func TestShutdownAnswersWhatWasAcceptedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, served := net.Pipe()
		l := slowListener{newPipeListener(), make(chan net.Conn, 1)}
		l.last <- served
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		ended := make(chan error, 1)
		go func() { ended <- handoff.Serve(server, &l) }()
		go func() {
			_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
		}()
		synctest.Wait()
		stopped := make(chan error, 1)
		go func() { stopped <- handoff.Shutdown(t.Context(), server) }()
		response, err := http.ReadResponse(bufio.NewReader(client), nil)
		must(t, err)
		if response.StatusCode != http.StatusOK {
			t.Errorf("the answer is %s", response.Status)
		}
		_, err = io.Copy(io.Discard, response.Body)
		must(t, err)
		must(t, client.Close())
		must(t, <-stopped)
		if err := <-ended; err != http.ErrServerClosed {
			t.Errorf("Serve ended with %v", err)
		}
	})
}
