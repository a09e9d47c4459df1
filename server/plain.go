package server

import (
	"fmt"
	"net"

	"github.com/nearcall/nearcall/internal/address"
)

// checkPlain warns of a listener whose peers may be on other machines and speak so that anybody
// on the way can read it, or refuses it if the option or the address says so. A listener of
// another kind may have its own protection.
func (s *Server) checkPlain(from net.Listener, said address.Plain) error {
	plain, ok := from.(*net.TCPListener)
	if !ok {
		return nil
	}
	at, ok := plain.Addr().(*net.TCPAddr)
	switch {
	case !ok || at.IP.IsLoopback():
	case s.config.plainRefused || said == address.PlainRefused:
		return fmt.Errorf("nearcall: %s can be reached from other machines, and anybody on the way can read and change the calls: serve a tls: address, or one of this machine only", at)
	case said != address.PlainQuiet:
		s.config.logger.Warn("calls over TCP can be read and changed by anybody on the way; a tls: address protects them, and plain=quiet in the address ends this warning", "address", at.String())
	}
	return nil
}
