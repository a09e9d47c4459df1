package client

import (
	"net"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/status"
)

// checkPlain warns of a connection to another machine that anybody on the way can read, or
// refuses it if the option or the address says so. Nothing has been sent on it.
func (e *endpoint) checkPlain(conn net.Conn) *status.Error {
	if e.address.Network != "tcp" {
		return nil
	}
	server, ok := conn.RemoteAddr().(*net.TCPAddr)
	switch {
	case !ok || server.IP.IsLoopback():
	case e.client.config.plainRefused || e.address.Plain == address.PlainRefused:
		return notExecuted(status.FailedPrecondition, "%s is on another machine, and anybody on the way can read and change the calls: use a tls: address", e.address)
	case e.address.Plain != address.PlainQuiet:
		e.client.plainWarned.Do(func() {
			e.client.log.Warn("calls over TCP can be read and changed by anybody on the way; a tls: address protects them, and plain=quiet in the address ends this warning",
				"address", e.address.String(), "server", server.String())
		})
	}
	return nil
}
