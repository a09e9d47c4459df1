// hashicorp/go-plugin, in its gRPC mode.
package main

import (
	"os"
	"strings"

	"github.com/hashicorp/go-plugin"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

// startScheme begins the address of a plugin that the host is to start: the rest is a
// folder for its socket.
const startScheme = "start:"

func main() {
	if len(os.Args) == 2 && os.Args[1] == pluginArgument {
		servePlugin()
		return
	}
	program.Main(program.Peer{
		Connections: program.OneForAll,
		Configuration: "gRPC mode, Unix socket. A cold server is the plugin as its host starts it, with the handshake. In all other rows the plugin is started by itself, in the mode" +
			" ServeTestConfig, without AutoMTLS and handshake, and the host reattaches: only so the CPU of each side is known",
		Documentation: "https://pkg.go.dev/github.com/hashicorp/go-plugin",
		Modules:       []string{"github.com/hashicorp/go-plugin", "google.golang.org/grpc"},
		Serve:         serve,
		Open:          program.Shared(open),
	})
	plugin.CleanupClients()
}

func open(address string) (calling.Echo, error) {
	if folder, ok := strings.CutPrefix(address, startScheme); ok {
		return startPlugin(folder)
	}
	return reattach(address)
}
