package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// Servers that clients of the web connect to. All answers but those of the floors come from
// one webserver; they differ in how a connection comes to it.
var (
	webServer   = serverPlan{program: "web", web: true}   // serves its own port
	frontServer = serverPlan{program: "front", web: true} // nearcall front, which hands connections to web
	// metricsServer is the front's own, beside the port for clients.
	metricsServer = serverPlan{program: "front metrics", web: true}
	proxyServer   = serverPlan{program: "nginx", web: true}       // a proxy to web's port, with kept-alive connections to it
	plainProxy    = serverPlan{program: "nginx-plain", web: true} // the same with a connection to web for each of its own
	// Programs in C that do nothing else: one that answers, and two of which one accepts.
	floorDirect = serverPlan{program: "web floor", web: true}
	floorHanded = serverPlan{program: "web floor, handed", web: true}
)

// downloadBytes is what there is to download.
const downloadBytes = 1 << 30

// A web is where the servers of one group listen that clients of the web connect to.
type web map[serverPlan]string

// newWeb reserves ports.
func newWeb() (web, error) {
	names := []serverPlan{webServer, frontServer, metricsServer, proxyServer, plainProxy, floorDirect, floorHanded}
	free, err := freePorts(len(names))
	w := web{}
	for i := range free {
		w[names[i]] = free[i]
	}
	return w, err
}

// freePorts returns addresses of ports that are free. Somebody else may take one before it is
// listened on; then that program says so, and what calls it fails.
func freePorts(count int) (hostPorts []string, err error) {
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		hostPorts = append(hostPorts, l.Addr().String())
	}
	return hostPorts, nil
}

// webCommand returns how a server is started, and writes what it reads.
func (s *scene) webCommand(name serverPlan) ([]string, error) {
	at, handed := s.web[name], "unix:"+filepath.Join(s.folder, "web.sock")
	switch name {
	case webServer:
		file := filepath.Join(s.folder, "download")
		err := os.WriteFile(file, nil, 0o600)
		if err == nil {
			err = os.Truncate(file, downloadBytes)
		}
		return []string{s.built("webserver"), handed, at, file}, err
	case frontServer:
		return s.front(at, "bench.example", s.web[metricsServer], handed)
	case floorDirect:
		return []string{s.built("web_floor"), at, "direct"}, nil
	case floorHanded:
		return []string{s.built("web_floor"), at, "handed"}, nil
	case proxyServer:
		return s.proxy(name, keptUpstream, keptLocation)
	}
	return s.proxy(name, "", "")
}

// front is a front whose backend listens at these sockets, with a configuration as docs/guides/handoff.md
// has it. All servers of the web listen with the same options: a connection comes to them with its
// first bytes (TCP_DEFER_ACCEPT), and as many wait as the kernel allows.
func (s *scene) front(at, host, metrics string, sockets ...string) ([]string, error) {
	text := fmt.Sprintf(`
[[listen]]
address = "tcp:%s"
defer_accept = true

[[route]]
host = %q
backend = "web"

[backend.web]
sockets = ["%s"]

[metrics]
address = "tcp:%s"
`, at, host, strings.Join(sockets, `", "`), metrics)
	path := filepath.Join(s.folder, "front.toml")
	return []string{filepath.Join(s.root, "build/bin/nearcall"), "front", path}, os.WriteFile(path, []byte(text), 0o600)
}

// proxy is an nginx that keeps connections to its upstream, or does not.
func (s *scene) proxy(name serverPlan, upstream, location string) ([]string, error) {
	folder := filepath.Join(s.folder, name.program)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	text := fmt.Sprintf(proxyConfig, folder, s.web[webServer], s.web[name], upstream, location)
	return []string{"nginx", "-e", "stderr", "-p", folder, "-c", folder + ".conf"}, os.WriteFile(folder+".conf", []byte(text), 0o600)
}

// What nginx's documentation gives for a proxy that keeps connections to its
// upstream; without both it makes a new one for each request. It would also end each
// connection after a thousand requests.
const (
	keptUpstream = "keepalive 64; keepalive_requests 100000000;"
	keptLocation = `proxy_http_version 1.1; proxy_set_header Connection "";`
)

// proxyConfig takes a folder, the upstream's address, the proxy's own, and what
// keeps connections.
const proxyConfig = `
daemon off;
worker_processes auto;
pid %[1]s/nginx.pid;
error_log stderr error;
events { worker_connections 4096; }
http {
    access_log off;
    client_body_temp_path %[1]s/client_body;
    proxy_temp_path %[1]s/proxy;
    fastcgi_temp_path %[1]s/fastcgi;
    uwsgi_temp_path %[1]s/uwsgi;
    scgi_temp_path %[1]s/scgi;
    upstream web {
        server %[2]s;
        %[4]s
    }
    server {
        listen %[3]s deferred backlog=65535;
        keepalive_requests 100000000;
        location / {
            proxy_pass http://web;
            %[5]s
            proxy_set_header Host $host;
            proxy_buffering off;
        }
    }
}
`

// startWeb starts a server of the web, after the webserver that it needs.
func (s *scene) startWeb(name serverPlan) (err error) {
	if s.web == nil {
		if s.web, err = newWeb(); err != nil {
			return err
		}
	}
	alone := name == webServer || name == floorDirect || name == floorHanded
	if !alone && s.servers[webServer] == nil {
		if err := s.startWeb(webServer); err != nil {
			return err
		}
	}
	command, err := s.webCommand(name)
	if err != nil {
		return err
	}
	server, err := startAt(s.web[name], command...)
	if err != nil {
		return err
	}
	if !alone {
		server.Behind = s.servers[webServer]
	}
	s.servers[name] = server
	return nil
}

// startAt starts a program that does not say when it is ready, and waits until it listens
// or has ended.
func startAt(hostPort string, command ...string) (*process.Process, error) {
	p, err := process.StartUnready(command...)
	if err != nil {
		return nil, err
	}
	if err := awaitPort(p, hostPort); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// awaitPort waits until a program listens or has ended.
func awaitPort(p *process.Process, hostPort string) error {
	deadline := time.After(process.ReadyTimeout)
	for {
		c, err := net.Dial("tcp", hostPort)
		if err == nil {
			return c.Close()
		}
		select {
		case <-p.Ended():
			return p.End()
		case <-deadline:
			return fmt.Errorf("nobody listens after %v: %w%s", process.ReadyTimeout, err, p.Complaints())
		case <-time.After(portPeriod):
		}
	}
}

const portPeriod = 10 * time.Millisecond
