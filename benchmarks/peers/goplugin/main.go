// hashicorp/go-plugin, in its gRPC mode.
package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/peers/grpc/echo"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

type peer struct{}

func main() { program.Main(peer{}) }

func (peer) Configuration() string {
	return "gRPC mode, Unix socket; the plugin's process is the server, and the host reattaches to it, so that each side is started by itself; all callers share one client"
}
func (peer) Documentation() string { return "https://pkg.go.dev/github.com/hashicorp/go-plugin" }
func (peer) Module() string        { return "github.com/hashicorp/go-plugin" }

// handshake is what host and plugin have to agree on.
var handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "NEARCALL_PEER", MagicCookieValue: "echo"}

const pluginName = "echo"

type service struct{ echo.UnimplementedEchoServer }

func (service) Echo(_ context.Context, request *echo.Bytes) (*echo.Bytes, error) {
	return request, nil
}

// echoPlugin is both sides of the plugin.
type echoPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (echoPlugin) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	echo.RegisterEchoServer(server, service{})
	return nil
}

func (echoPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, connection *grpc.ClientConn) (any, error) {
	return echo.NewEchoClient(connection), nil
}

func plugins() plugin.PluginSet { return plugin.PluginSet{pluginName: echoPlugin{}} }

func logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr})
}

// attachment is what a host is told of a plugin that runs.
type attachment struct {
	Path string
	Pid  int
}

const scheme = "plugin:"

// Serve serves in the mode that go-plugin has for plugins which no host has started.
func (peer) Serve(path string) (string, error) {
	if err := os.Setenv(plugin.EnvUnixSocketDir, filepath.Dir(path)); err != nil {
		return "", err
	}
	attached := make(chan *plugin.ReattachConfig)
	go plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: handshake, Plugins: plugins(), GRPCServer: plugin.DefaultGRPCServer, Logger: logger(),
		Test: &plugin.ServeTestConfig{Context: context.Background(), ReattachConfigCh: attached},
	})
	config := <-attached
	text, err := json.Marshal(attachment{config.Addr.String(), config.Pid})
	return scheme + string(text), err
}

func (peer) Open(address string, _, callers int) ([]calling.Echo, error) {
	var at attachment
	if err := json.Unmarshal([]byte(strings.TrimPrefix(address, scheme)), &at); err != nil {
		return nil, err
	}
	host := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: handshake, Plugins: plugins(), AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: logger(),
		Reattach: &plugin.ReattachConfig{
			Protocol: plugin.ProtocolGRPC, ProtocolVersion: int(handshake.ProtocolVersion),
			Addr: &net.UnixAddr{Name: at.Path, Net: "unix"}, Pid: at.Pid, Test: true,
		},
	})
	protocol, err := host.Client()
	if err != nil {
		return nil, err
	}
	dispensed, err := protocol.Dispense(pluginName)
	if err != nil {
		return nil, err
	}
	client := dispensed.(echo.EchoClient)
	return program.Shared(callers, func(request []byte) ([]byte, error) {
		answer, err := client.Echo(context.Background(), &echo.Bytes{Data: request})
		return answer.GetData(), err
	}), nil
}
