package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/client"
)

// Gateways whose socket callers use, before a testserver. Each has its NATS server itself.
var (
	// Of another host than testserver, whose functions a second gateway exports.
	remoteGateway = serverPlan{program: "gateway", gateway: true}
	// Of the same host, and exports them itself.
	localGateway = serverPlan{program: "gateway, local", gateway: true}
)

// forwardServer passes calls on to a testserver, without gateways and NATS.
var forwardServer = serverPlan{program: "forwarder", serves: true}

func (s *scene) startForwarder() error {
	server, err := s.start(s.command(testServer, s.nextSocket())...)
	if err := s.also(server, err); err != nil {
		return err
	}
	forwarder, err := s.start(s.built(forwardServer.program), "unix:"+s.nextSocket(), server.Said)
	if err != nil {
		return err
	}
	forwarder.Behind, s.servers[forwardServer] = server, forwarder
	return nil
}

// startGateway starts the gateway that callers use, and what works for it.
func (s *scene) startGateway(p serverPlan) error {
	free, err := freePorts(1)
	if err != nil {
		return err
	}
	server, err := s.start(s.command(testServer, s.nextSocket())...)
	if err := s.also(server, err); err != nil {
		return err
	}
	path, export := s.nextSocket(), []string{"--export", "bench=" + server.Said}
	callers := []string{"--host", "callers", "--listen", "unix:" + path, "--engine-listen", free[0]}
	if p == localGateway {
		callers = append(callers, export...)
	}
	gateway, err := s.gateway(callers...)
	if err != nil {
		return err
	}
	gateway.Said, gateway.Behind, s.servers[p] = "unix:"+path, server, gateway
	if p == remoteGateway {
		if err := awaitPort(gateway, free[0]); err != nil { // it would try again after a while
			return err
		}
		other, err := s.gateway(append(export, "--host", "functions", "--nats", "nats://"+free[0])...)
		if err := s.also(other, err); err != nil {
			return err
		}
		gateway.Behind, other.Behind = other, server
	}
	return awaitEcho(gateway)
}

// nextSocket is the path of one that no server has.
func (s *scene) nextSocket() string {
	s.sockets++
	return filepath.Join(s.folder, fmt.Sprintf("%d.sock", s.sockets))
}

// gateway starts one, which does not say when it is ready.
func (s *scene) gateway(args ...string) (*process.Process, error) {
	return process.StartUnready(slices.Concat(s.prefix, []string{filepath.Join(s.root, "build/bin/nearcall"), "gateway"}, args)...)
}

// awaitEcho waits until a gateway knows who has the function that rows call.
func awaitEcho(gateway *process.Process) error {
	c, err := client.New(gateway.Said)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), process.ReadyTimeout)
	defer cancel()
	for {
		_, err := c.CallRaw(ctx, "echo", []byte("ready"), nil)
		if err == nil {
			return nil
		}
		select {
		case <-gateway.Ended():
			return gateway.End()
		case <-ctx.Done():
			return fmt.Errorf("the gateway passes no calls on after %v: %w%s", process.ReadyTimeout, err, gateway.Complaints())
		case <-time.After(portPeriod):
		}
	}
}
