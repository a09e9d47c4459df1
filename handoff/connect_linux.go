package handoff

import (
	"context"
	"net"
	"os"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/peercred"
	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
)

func credentialsOf(socket *net.UnixConn) (Credentials, error) {
	peer, err := peercred.Get(socket)
	return Credentials{ProcessID: peer.ProcessID, UserID: peer.UserID, GroupID: peer.GroupID}, err
}

// passRights says whether a process that connects may send descriptors at once, as
// programs do that do not speak the protocol. Others may send them once they are
// admitted.
func passRights(socket *net.UnixListener, pass bool) { unixsocket.PassRights(socket, pass) }

// disarm makes sure that closing what was given does not wait.
func disarm(descriptor int) { rights.Disarm(descriptor) }

// newFile makes a file of a descriptor that was given, and takes the descriptor over,
// even if it fails.
func newFile(descriptor int, name string) (*os.File, error) { return rights.NewFile(descriptor, name) }

// closeFile closes a file without waiting.
func closeFile(file *os.File) { rights.CloseOpen(file) }

// listen makes the socket and its lock, as a server does.
func listen(at address.Address, c *config) (net.Listener, error) {
	return unixsocket.Transport{}.Listen(context.Background(), at, transport.ListenOptions{Mode: c.mode, GroupID: -1, PassRights: c.bare})
}
