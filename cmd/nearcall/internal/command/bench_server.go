package command

import (
	"context"
	"encoding/json"
	"net"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/cputime"
	"github.com/nearcall/nearcall/internal/peercred"
)

// serverProcess returns the process of a local server; 0 where its CPU time cannot be
// read. What the server says of itself has to be what the kernel says of its
// socket: a server in another namespace of processes has another number there, and of
// a socket that a service manager opened the kernel names the manager.
func serverProcess(ctx context.Context, c *client.Client) int {
	text, err := c.Stats(ctx)
	if err != nil {
		return 0
	}
	var stats struct {
		ProcessID int `json:"process_id"`
	}
	if err := json.Unmarshal([]byte(text), &stats); err != nil {
		return 0
	}
	parsed, err := address.Parse(c.Address(), true)
	if err != nil || parsed.Network != "unix" {
		return 0
	}
	conn, err := net.Dial(parsed.Network, parsed.Target)
	if err != nil {
		return 0
	}
	defer conn.Close()
	peer, err := peercred.Get(conn)
	if err != nil || int(peer.ProcessID) != stats.ProcessID {
		return 0
	}
	if _, err := cputime.Of(stats.ProcessID); err != nil {
		return 0
	}
	return stats.ProcessID
}
