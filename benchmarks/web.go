package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
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

// A web is the programs of one group that clients of the web connect to.
type web struct {
	t      tools
	folder string
	ports  map[serverPlan]int
}

// newWeb reserves ports.
func newWeb(t tools, folder string) (*web, error) {
	names := []serverPlan{webServer, frontServer, metricsServer, proxyServer, plainProxy, floorDirect, floorHanded}
	free, err := freePorts(len(names))
	if err != nil {
		return nil, err
	}
	w := &web{t: t, folder: folder, ports: map[serverPlan]int{}}
	for i, name := range names {
		w.ports[name] = free[i]
	}
	return w, nil
}

// freePorts returns ports that are free. Somebody else may take one before it is listened
// on; then that program says so, and what calls it fails.
func freePorts(count int) ([]int, error) {
	var ports []int
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (w *web) hostPort(name serverPlan) string { return local(w.ports[name]) }

func (w *web) handed() string { return "unix:" + filepath.Join(w.folder, "web.sock") }

// command returns how a server is started, and writes what it reads.
func (w *web) command(name serverPlan) ([]string, error) {
	switch name {
	case webServer:
		file := filepath.Join(w.folder, "download")
		err := os.WriteFile(file, nil, 0o600)
		if err == nil {
			err = os.Truncate(file, downloadBytes)
		}
		return []string{w.t.built("webserver"), w.handed(), w.hostPort(webServer), file}, err
	case frontServer:
		return w.configured("front.toml", fmt.Sprintf(frontConfig, w.hostPort(frontServer), "bench.example", strconv.Quote(w.handed()), w.hostPort(metricsServer)),
			filepath.Join(w.t.root, "build/bin/nearcall"), "front")
	case floorDirect:
		return []string{w.t.built("web_floor"), w.hostPort(name), "direct"}, nil
	case floorHanded:
		return []string{w.t.built("web_floor"), w.hostPort(name), "handed"}, nil
	case proxyServer:
		return w.proxy(name, keptUpstream)
	case plainProxy:
		return w.proxy(name, "")
	}
	return nil, fmt.Errorf("%s is no server of the web", name.program)
}

// proxy is an nginx that keeps connections to its upstream, or does not.
func (w *web) proxy(name serverPlan, kept string) ([]string, error) {
	folder := filepath.Join(w.folder, name.program)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	location := ""
	if kept != "" {
		location = keptLocation
	}
	text := fmt.Sprintf(proxyConfig, folder, w.hostPort(webServer), w.hostPort(name), kept, location)
	return w.configured(name.program+".conf", text, "nginx", "-e", "stderr", "-p", folder, "-c")
}

// configured writes a configuration and appends its path to a command.
func (w *web) configured(name, text string, command ...string) ([]string, error) {
	path := filepath.Join(w.folder, name)
	return append(command, path), os.WriteFile(path, []byte(text), 0o600)
}

// All servers listen with the same options: a connection comes to them with its first
// bytes (TCP_DEFER_ACCEPT), and as many wait as the kernel allows.

// frontConfig takes the front's address, the host, the backend's sockets, and where metrics are.
// It is what docs/guides/handoff.md shows.
const frontConfig = `
[[listen]]
address = "tcp:%s"
defer_accept = true

[[route]]
host = %q
backend = "web"

[backend.web]
sockets = [%s]

[metrics]
address = "tcp:%s"
`

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
		if s.web, err = newWeb(s.tools, s.folder); err != nil {
			return err
		}
	}
	alone := name == webServer || name == floorDirect || name == floorHanded
	if !alone && s.servers[webServer] == nil {
		if err := s.startWeb(webServer); err != nil {
			return err
		}
	}
	command, err := s.web.command(name)
	if err != nil {
		return err
	}
	server, err := process.StartUnready(command...)
	if err != nil {
		return err
	}
	if err := awaitPort(server, s.web.hostPort(name)); err != nil {
		server.Stop()
		return err
	}
	if !alone {
		server.Behind = s.servers[webServer]
	}
	s.servers[name] = server
	return nil
}

// awaitPort waits until a program that does not say when it is ready listens, or has
// ended.
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
