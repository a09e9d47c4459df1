package handoff

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// An httpAnswer says that it is its connection's last one, if the server is leaving when its
// head is written: its request may have come long before. It does all that the server's
// own does, so that handlers see no difference.
type httpAnswer struct {
	http.ResponseWriter
	serving *httpServing
	headed  bool
}

// plainAnswer is one of HTTP/1.
type plainAnswer struct{ *httpAnswer }

// streamAnswer is one of HTTP/2.
type streamAnswer struct{ *httpAnswer }

// answerOver returns what the handler answers by, and what is to be called after it.
func (s *httpServing) answerOver(w http.ResponseWriter, r *http.Request) (answer http.ResponseWriter, end func()) {
	a := &httpAnswer{ResponseWriter: w, serving: s}
	end = func() { a.begin(http.StatusOK) }
	if r.ProtoMajor == 1 {
		return plainAnswer{a}, end
	}
	return streamAnswer{a}, end
}

// begin is called before the head is written. One of HTTP/2 becomes GOAWAY.
func (a *httpAnswer) begin(status int) {
	informs := status < http.StatusOK && status != http.StatusSwitchingProtocols
	if a.headed || informs {
		return
	}
	a.headed = true
	if status != http.StatusSwitchingProtocols && a.serving.leaving.Load() {
		a.Header().Set("Connection", "close")
	}
}

func (a *httpAnswer) WriteHeader(status int) {
	a.begin(status)
	a.ResponseWriter.WriteHeader(status)
}

func (a *httpAnswer) Write(p []byte) (int, error) {
	a.begin(http.StatusOK)
	return a.ResponseWriter.Write(p)
}

func (a *httpAnswer) WriteString(text string) (int, error) {
	a.begin(http.StatusOK)
	return io.WriteString(a.ResponseWriter, text)
}

func (a *httpAnswer) FlushError() error {
	a.begin(http.StatusOK)
	return http.NewResponseController(a.ResponseWriter).Flush()
}

func (a *httpAnswer) Flush() { _ = a.FlushError() }

// CloseNotify is asked for by handlers that are older than contexts.
func (a *httpAnswer) CloseNotify() <-chan bool {
	return a.ResponseWriter.(interface{ CloseNotify() <-chan bool }).CloseNotify()
}

// Unwrap is for http.ResponseController.
func (a *httpAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// ReadFrom lets the kernel copy files.
func (a plainAnswer) ReadFrom(source io.Reader) (int64, error) {
	a.begin(http.StatusOK)
	return io.Copy(a.ResponseWriter, source)
}

func (a plainAnswer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	a.headed = a.headed || err == nil
	return conn, rw, err
}

func (a streamAnswer) Push(target string, options *http.PushOptions) error {
	if pusher, ok := a.ResponseWriter.(http.Pusher); ok {
		return pusher.Push(target, options)
	}
	return http.ErrNotSupported
}
