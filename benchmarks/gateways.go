package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/client"
)

// Gateways whose socket callers use, before a testserver. Those of two hosts share a NATS server.
var (
	// Of another host than testserver, whose functions a second gateway exports.
	remoteGateway = serverPlan{program: "gateway", gateway: true}
	// The same, and the gateway that callers use calls testserver itself, by TLS.
	directGateway = serverPlan{program: "gateway, direct", gateway: true}
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
	server, export, err := s.exported(p)
	if err != nil {
		return err
	}
	path := s.nextSocket()
	callers := []string{"--host", "callers", "--listen", "unix:" + path}
	behind := server
	if p == localGateway {
		callers = append(append(callers, "--engine-listen", "off"), export...)
	} else {
		engine, err := s.start(s.peerProgram("natsserver"), "serve", "unix:"+s.nextSocket())
		if err := s.also(engine, err); err != nil {
			return err
		}
		other, err := s.gateway(append(export, "--host", "functions", "--nats", engine.Said)...)
		if err := s.also(other, err); err != nil {
			return err
		}
		engine.Behind, other.Behind, behind = server, engine, other
		callers = append(callers, "--nats", engine.Said)
	}
	if p == directGateway {
		callers = append(callers, "--direct", "gateways", "--ca", certificates(s.folder).authority())
	}
	gateway, err := s.gateway(callers...)
	if err != nil {
		return err
	}
	gateway.Said, gateway.Behind = "unix:"+path, behind
	if err := awaitEcho(gateway); err != nil {
		gateway.Stop()
		return err
	}
	s.servers[p] = gateway
	return nil
}

// exported starts a testserver, and returns the options by which a gateway exports it. What is
// called directly is another, which listens by TLS: a testserver has one address.
func (s *scene) exported(p serverPlan) (*process.Process, []string, error) {
	server, err := s.start(s.command(testServer, s.nextSocket())...)
	if err := s.also(server, err); err != nil {
		return nil, nil, err
	}
	if p != directGateway {
		return server, []string{"--export", "bench=" + server.Said}, nil
	}
	if err := certificates(s.folder).write(); err != nil {
		return nil, nil, err
	}
	far, err := s.start(s.command(servers["test-tls"], s.nextSocket())...)
	if err := s.also(far, err); err != nil {
		return nil, nil, err
	}
	server.Behind = far
	text := fmt.Sprintf("[[export]]\nname = \"bench\"\naddress = %q\ndirect = %q\n", server.Said, far.Said)
	path := filepath.Join(s.folder, "gateway.toml")
	return server, []string{"--config", path}, os.WriteFile(path, []byte(text), 0o600)
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
		for one := gateway; one != nil; one = one.Behind {
			select {
			case <-one.Ended():
				return one.End()
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the gateway passes no calls on after %v: %w%s", process.ReadyTimeout, err, gateway.Complaints())
		case <-time.After(portPeriod):
		}
	}
}
