package handoff

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// An httpAnswer is the http.ResponseWriter of a server that Shutdown can stop. If the
// server is stopping when the head of the answer is written, it says that the answer is
// the last one on its connection; the request may have come long before. It can do all
// that handlers can ask of the server's own ResponseWriter, with one exception:
// http.MaxBytesReader tells only the server's own to close the connection after a body
// that is too large. With this one the server reads up to 256 KiB of such a body first.
type httpAnswer struct {
	http.ResponseWriter
	serving *httpServing
	headed  bool
}

// plainAnswer is an answer in HTTP/1.
type plainAnswer struct{ *httpAnswer }

// streamAnswer is an answer in HTTP/2.
type streamAnswer struct{ *httpAnswer }

// answerOver returns the ResponseWriter for the handler, and what is to be called after
// the handler.
func (s *httpServing) answerOver(w http.ResponseWriter, r *http.Request) (answer http.ResponseWriter, end func()) {
	a := &httpAnswer{ResponseWriter: w, serving: s}
	end = func() { a.begin(http.StatusOK) }
	if r.ProtoMajor == 1 {
		return plainAnswer{a}, end
	}
	return streamAnswer{a}, end
}

// begin is called before the head is written. In HTTP/2 the server turns Connection:
// close into GOAWAY.
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

// CloseNotify is for handlers that are older than contexts.
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
