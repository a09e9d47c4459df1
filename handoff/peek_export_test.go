package handoff

import (
	"context"
	"crypto/tls"
	"net/http"
)

// RequestHead is what PeekHTTP1 asks about the bytes that there are. It returns
// nothing where more are needed.
func RequestHead() func(data []byte) (*http.Request, error) {
	head := requestHead{}
	return func(data []byte) (*http.Request, error) {
		_, err := head.complete(data)
		return head.request, err
	}
}

// ClientHello is the same for PeekTLS.
func ClientHello() func(data []byte) (*tls.ClientHelloInfo, error) {
	progress := helloProgress{}
	return func(data []byte) (*tls.ClientHelloInfo, error) {
		if done, err := progress.complete(data); err != nil || !done {
			return nil, err
		}
		return parseClientHello(context.Background(), data)
	}
}
