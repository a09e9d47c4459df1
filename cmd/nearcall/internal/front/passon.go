package front

import (
	"net"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/backend"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/head"
)

// firstBytes is room for the heads of most requests.
const firstBytes = 4096

// passOn is run for a connection whose request is there as it is accepted, and whose backend
// has a process that is free: it needs no goroutine and waits for nothing. false: nothing was
// done, and run does it. The goroutine that accepts calls this.
func (v *visit) passOn(c *connection, buffer []byte) bool {
	if !v.listen.DeferAccept || v.listen.ProxyProtocol {
		return false
	}
	asked, understood := v.glance(c.peek(buffer))
	if !understood {
		v.kind, v.scanner = head.Unknown, head.Scanner{}
		return false
	}
	to, found := v.find(asked)
	if !found {
		return false
	}
	v.seen = time.Now()
	return to.backend.Offer(v.stream, v.meta(to.route), func(took *backend.Socket, again *backend.Turn) {
		if again != nil {
			v.kind, v.scanner, v.turn = head.Unknown, head.Scanner{}, again
			go v.run()
			return
		}
		v.passedOn(to, took, asked, c.remote)
	})
}

// glance understands a request of HTTP/1 that is there as a whole.
func (v *visit) glance(text []byte) (asked wish, understood bool) {
	if complete, err := v.enough(text); len(text) == 0 || err != nil || !complete || v.kind != head.HTTP {
		return wish{}, false
	}
	request, err := head.Parse(text)
	return wish{request.Host, request.Path}, err == nil
}

func (v *visit) passedOn(to *destination, took *backend.Socket, asked wish, client net.Addr) {
	to.handed.Inc()
	v.front.metrics.looked.Observe(v.seen.Sub(v.began).Seconds())
	v.front.metrics.gave.Observe(time.Since(v.seen).Seconds())
	v.front.guard.release(v.client)
	if v.config.Log.Handoffs {
		go v.log(to, took, asked, client)
	}
}
