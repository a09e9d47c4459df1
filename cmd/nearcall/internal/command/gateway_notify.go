package command

import (
	"errors"
	"net"
	"os"
)

// notify tells systemd how the program is, if systemd wants to know (sd_notify(3)).
func (r *gatewayRun) notify(state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	conn, err := net.Dial("unixgram", socket)
	if err == nil {
		_, err = conn.Write([]byte(state))
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		r.log().Warn("systemd was not told", "state", state, "error", err)
	}
}
