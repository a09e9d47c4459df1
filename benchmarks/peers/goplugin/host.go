package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/hashicorp/go-plugin"

	"github.com/nearcall/nearcall/benchmarks/calling"
)

func hostConfig() *plugin.ClientConfig {
	return &plugin.ClientConfig{HandshakeConfig: handshake, Plugins: plugins(), AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: logger()}
}

// startPlugin starts the plugin as hosts do.
func startPlugin(folder string) (calling.Echo, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// It would end with the thread that has started it.
	runtime.LockOSThread()
	config := hostConfig()
	config.Cmd = exec.Command(program, pluginArgument)
	config.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	config.UnixSocketConfig = &plugin.UnixSocketConfig{TempDir: folder}
	config.Managed = true
	cleanUpWhenTold()
	return echoOf(plugin.NewClient(config))
}

// cleanUpWhenTold ends the plugin when this process is told to end; main does so when
// the callers have ended.
func cleanUpWhenTold() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		plugin.CleanupClients()
		os.Exit(0)
	}()
}

// reattach calls a plugin that runs.
func reattach(address string) (calling.Echo, error) {
	var at attachment
	if err := json.Unmarshal([]byte(strings.TrimPrefix(address, attachScheme)), &at); err != nil {
		return nil, err
	}
	config := hostConfig()
	config.Reattach = &plugin.ReattachConfig{
		Protocol: plugin.ProtocolGRPC, ProtocolVersion: int(handshake.ProtocolVersion),
		Addr: &net.UnixAddr{Name: at.Path, Net: "unix"}, Pid: at.Pid, Test: true,
	}
	return echoOf(plugin.NewClient(config))
}

func echoOf(host *plugin.Client) (calling.Echo, error) {
	protocol, err := host.Client()
	if err != nil {
		return nil, err
	}
	dispensed, err := protocol.Dispense(pluginName)
	if err != nil {
		return nil, err
	}
	return dispensed.(calling.Echo), nil
}
