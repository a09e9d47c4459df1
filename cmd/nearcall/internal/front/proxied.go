package front

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"

	"github.com/pires/go-proxyproto"

	"github.com/nearcall/nearcall/handoff"
)

// errNoProxy is that of a connection whose listener is told of clients by a load balancer,
// and that does not begin so.
var errNoProxy = errors.New("the connection does not begin with a PROXY header")

// errCrowded is that of a client behind a load balancer that has as many as it may.
var errCrowded = errors.New("the client has as many connections here as it may")

// proxied reads what a load balancer says of the client (PROXY protocol 1 or 2), and no
// byte more: all that follows is the client's, and is given away unread.
func (v *visit) proxied() error {
	var bytesTotal int
	ctx := until{Context: v.front.ctx, end: v.began.Add(v.config.Timeouts.Peek)}
	text, err := handoff.Peek(ctx, v.stream, v.config.Limits.HeadBytesMax, func(text []byte) (bool, error) {
		var err error
		bytesTotal, err = proxyHeaderBytes(text)
		return bytesTotal > 0 && len(text) >= bytesTotal, err
	})
	if err != nil {
		return err
	}
	header, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(text[:bytesTotal]), bytesTotal))
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(v.stream, make([]byte, bytesTotal)); err != nil {
		return err
	}
	// Without addresses it is the balancer's own connection, as for a look at our health.
	if source, destination, known := header.TCPAddrs(); known && header.Command.IsProxy() {
		v.remote, v.local = source, destination
		client := clientOf(source)
		v.front.guard.move(v.client, client)
		v.client = client
	}
	if v.front.guard.crowded(v.client) {
		return errCrowded
	}
	return nil
}

// The beginnings of both versions, and the longest header of the first.
const (
	proxyVersion1    = "PROXY "
	proxyVersion2    = "\r\n\r\n\x00\r\nQUIT\n"
	proxyLineMax     = 107
	proxyFixedBytes  = 16
	proxyLengthStart = 14
)

// proxyHeaderBytes is how long the header is; 0: that cannot be told yet.
func proxyHeaderBytes(text []byte) (int, error) {
	begins := func(with string) bool { return bytes.HasPrefix(text, []byte(with)[:min(len(with), len(text))]) }
	switch {
	case begins(proxyVersion1):
		end := bytes.IndexByte(text[:min(len(text), proxyLineMax)], '\n')
		if end < 0 && len(text) >= proxyLineMax {
			return 0, errNoProxy
		}
		return end + 1, nil
	case begins(proxyVersion2):
		if len(text) < proxyFixedBytes {
			return 0, nil
		}
		return proxyFixedBytes + int(binary.BigEndian.Uint16(text[proxyLengthStart:])), nil
	}
	return 0, errNoProxy
}

// meta is what a process gets to know of the connection.
func (v *visit) meta(route string) handoff.Meta {
	if back, ok := v.stream.(*handoff.Conn); ok {
		return handoff.Meta{Name: route, Local: back.Meta().Local, Remote: back.Meta().Remote}
	}
	return handoff.Meta{Name: route, Local: v.local, Remote: v.remote}
}

// clientAddress is the client's, by whoever knows best.
func (v *visit) clientAddress() net.Addr {
	if v.remote != nil {
		return v.remote
	}
	return v.stream.RemoteAddr()
}
