package front

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/head"
)

// An answer is what the front itself says to a client, for want of a process that
// does.
type answer uint8

const (
	// answerNothing closes the connection.
	answerNothing answer = iota
	answerMalformed
	answerTooSlow
	answerMisdirected
	answerTooLarge
	answerUnavailable
	answerFull
	answersCount
)

// The alerts of TLS that fit, by RFC 8446 and RFC 6066.
const (
	alertDecodeError      = 50
	alertInternalError    = 80
	alertUnrecognizedName = 112
)

// answers has for each what HTTP/1 and TLS say. An alert of 0 is no alert.
var answers = [answersCount]struct {
	status int
	text   string
	alert  byte
}{
	answerNothing:     {},
	answerMalformed:   {http.StatusBadRequest, "The request cannot be understood.", alertDecodeError},
	answerTooSlow:     {http.StatusRequestTimeout, "The request did not arrive in time.", 0},
	answerMisdirected: {http.StatusMisdirectedRequest, "There is no such site here, or it is not served on this connection.", alertUnrecognizedName},
	answerTooLarge:    {http.StatusRequestHeaderFieldsTooLarge, "The head of the request is too large.", alertDecodeError},
	answerUnavailable: {http.StatusServiceUnavailable, "No process of this site takes requests at the moment. Try again.", alertInternalError},
	answerFull:        {http.StatusServiceUnavailable, "There are too many connections at the moment. Try again.", alertInternalError},
}

// bytes is the answer as it is sent to a client of that kind.
func (a answer) bytes(tls bool) []byte {
	row := answers[a]
	switch {
	case tls && row.alert != 0:
		// Record: alert (21), TLS 1.2, two bytes. Alert: fatal, description.
		return []byte{21, 3, 3, 0, 2, 2, row.alert}
	case tls || row.status == 0:
		return nil
	}
	again := ""
	if row.status == http.StatusServiceUnavailable {
		again = "Retry-After: 1\r\n"
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		row.status, http.StatusText(row.status), again, len(row.text)+1, row.text)
}

// label is the answer in the metrics.
func (a answer) label() string {
	if answers[a].status == 0 {
		return "none"
	}
	return fmt.Sprint(answers[a].status)
}

// answer sends it and closes the connection once the client has read it, or has had
// the time to: a connection that is closed with unread bytes is reset, and what was
// sent is lost.
func (v *visit) answer(a answer) {
	v.front.metrics.answered(a)
	if v.turn != nil {
		v.turn.GiveUp()
	}
	defer v.stream.Close()
	_ = v.stream.SetDeadline(time.Now().Add(v.config.Timeouts.Linger))
	if text := a.bytes(v.speaksTLS()); len(text) > 0 {
		// A client that does not take it is told the end all the same: a process that was
		// stopped may have a copy of the connection.
		_, _ = v.stream.Write(text)
	}
	if err := v.stream.CloseWrite(); err != nil {
		return
	}
	// A client that goes on sending for ever is not worth waiting for.
	const discardMax = 1 << 20
	_, _ = io.CopyN(io.Discard, v.stream, discardMax)
}

// turnAway answers a connection that there is no room for, and waits for nothing:
// the goroutine that accepts does this. What has arrived is read first, so that the
// answer is rarely lost with it.
func (v *visit) turnAway() {
	defer v.stream.Close()
	raw, err := v.stream.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		v.kind = head.KindOf(receiveNow(fd))
		sendNow(fd, answerFull.bytes(v.speaksTLS()))
	})
}

func (v *visit) speaksTLS() bool {
	return v.kind == head.TLS || v.listen.Protocol == config.ProtocolTLS
}
