package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/nearcall/nearcall/benchmarks/peers/grpc/echo"
	"github.com/nearcall/nearcall/benchmarks/peers/program"
)

// handshake is what host and plugin have to agree on.
var handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "NEARCALL_PEER", MagicCookieValue: "echo"}

const (
	pluginName     = "echo"
	pluginArgument = "plugin" // makes this program one that a host has started
)

// echoPlugin is both sides of the plugin.
type echoPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (echoPlugin) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	echo.Register(server)
	return nil
}

func (echoPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, connection *grpc.ClientConn) (any, error) {
	return echo.Of(connection), nil
}

func plugins() plugin.PluginSet { return plugin.PluginSet{pluginName: echoPlugin{}} }

func logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr})
}

func serveConfig() *plugin.ServeConfig {
	return &plugin.ServeConfig{HandshakeConfig: handshake, Plugins: plugins(), GRPCServer: plugin.DefaultGRPCServer, Logger: logger()}
}

// servePlugin serves the host that has started this process.
func servePlugin() { plugin.Serve(serveConfig()) }

// attachment is what a host is told of a plugin that runs.
type attachment struct {
	Path string
	Pid  int
}

const attachScheme = "plugin:"

// serve serves in the mode that go-plugin has for plugins which no host has started.
func serve(path string) (program.Server, error) {
	if err := os.Setenv(plugin.EnvUnixSocketDir, filepath.Dir(path)); err != nil {
		return program.Server{}, err
	}
	attached, ended := make(chan *plugin.ReattachConfig), make(chan struct{})
	config := serveConfig()
	config.Test = &plugin.ServeTestConfig{Context: context.Background(), ReattachConfigCh: attached}
	go func() {
		defer close(ended)
		plugin.Serve(config)
	}()
	run := func() error {
		<-ended
		return errors.New("plugin.Serve has returned")
	}
	at := <-attached
	text, err := json.Marshal(attachment{at.Addr.String(), at.Pid})
	return program.Server{Address: attachScheme + string(text), Run: run}, err
}
