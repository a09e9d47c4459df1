package gateway

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	engine "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nuid"
)

const (
	// How the engine of a gateway watches its connections. A server of the cluster that has
	// vanished is found within about two seconds.
	embeddedPing  = time.Second
	embeddedPings = 2
	embeddedWrite = 2 * time.Second
	// embeddedStart bounds how long it takes to start.
	embeddedStart = 10 * time.Second
	noListener    = "off"
)

// startEmbedded starts the gateway's own engine.
func startEmbedded(config *Config, log *slog.Logger) (*ownEngine, error) {
	options, err := config.Engine.Embedded.options(config.Name)
	if err != nil {
		return nil, fmt.Errorf("gateway: embedded engine: %w", err)
	}
	users := newEngineUsers(config.Prefix)
	options.CustomClientAuthentication = users
	made, err := engine.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("gateway: embedded engine: %w", err)
	}
	words := &engineLog{log: log, lately: map[string]*repeated{}}
	made.SetLoggerV2(words, false, false, false)
	made.Start()
	for began := time.Now(); !made.ReadyForConnections(embeddedStart / 100); {
		if err := words.fatal(); err != nil || time.Since(began) > embeddedStart {
			made.Shutdown()
			return nil, fmt.Errorf("gateway: embedded engine: %w", cmp.Or(err, errors.New("it does not get ready")))
		}
	}
	return &ownEngine{Server: made, words: words, password: users.password}, nil
}

// options are those of the engine for what was configured.
func (e *Embedded) options(name string) (*engine.Options, error) {
	// Two gateways may have one name, but no two servers of a cluster.
	o := &engine.Options{ServerName: name + "-" + nuid.Next(), NoSigs: true, PingInterval: embeddedPing, MaxPingsOut: embeddedPings,
		WriteDeadline: embeddedWrite, DontListen: e.Listen == noListener,
		// engineLog leaves repetitions out.
		ConnectErrorReports: 1, ReconnectErrorReports: 1}
	o.Cluster.PingInterval, o.Cluster.MaxPingsOut, o.Cluster.WriteDeadline = embeddedPing, embeddedPings, embeddedWrite
	secure, err := e.secure()
	if err != nil {
		return nil, err
	}
	listeners := []struct {
		at     string
		host   *string
		port   *int
		secure **tls.Config
	}{
		{e.Listen, &o.Host, &o.Port, &o.TLSConfig},
		{e.ClusterListen, &o.Cluster.Host, &o.Cluster.Port, &o.Cluster.TLSConfig},
		{e.LeafListen, &o.LeafNode.Host, &o.LeafNode.Port, &o.LeafNode.TLSConfig},
	}
	for _, l := range listeners {
		if l.at == "" || l.at == noListener {
			continue
		}
		if *l.host, *l.port, err = e.place(l.at); err != nil {
			return nil, err
		}
		*l.secure = secure.Clone()
	}
	o.TLSVerify = secure != nil && secure.ClientAuth == tls.RequireAndVerifyClientCert
	return o, e.others(o, secure)
}

// others sets which other engines are connected to.
func (e *Embedded) others(o *engine.Options, secure *tls.Config) error {
	if e.ClusterListen != "" {
		o.Cluster.Name = e.ClusterName
	} else if len(e.Routes) > 0 {
		return errors.New("routes lead to servers of a cluster, which connect back: give Embedded.ClusterListen too")
	}
	routes, err := e.urls(e.Routes, secure != nil)
	if err != nil {
		return err
	}
	o.Routes = routes
	leafs, err := e.urls(e.Leafs, secure != nil)
	if err != nil {
		return err
	}
	for _, leaf := range leafs {
		remote := &engine.RemoteLeafOpts{URLs: []*url.URL{leaf}}
		if secure != nil {
			remote.TLS, remote.TLSConfig = true, secure.Clone()
		}
		o.LeafNode.Remotes = append(o.LeafNode.Remotes, remote)
	}
	if e.ClusterListen != "" && e.Listen == noListener {
		// It would wait for its port for programs before it begins with the cluster, for ever.
		return errors.New("a server of a cluster listens for programs as well: give Embedded.Listen an address such as 127.0.0.1:4222, and not off")
	}
	o.LeafNode.ReconnectInterval = embeddedPing
	return nil
}

// secure returns the configuration of TLS, or nil without a certificate. It is for servers and for
// clients, because each server of a cluster is both.
func (e *Embedded) secure() (*tls.Config, error) {
	if e.TLS.Certificate == "" {
		if e.TLS.Authorities != "" {
			return nil, errors.New("authorities without a certificate: give TLS.Certificate and TLS.Key too")
		}
		return nil, nil
	}
	made, err := engine.GenTLSConfig(&engine.TLSConfigOpts{CertFile: e.TLS.Certificate, KeyFile: e.TLS.Key, CaFile: e.TLS.Authorities,
		Verify: e.TLS.Authorities != "", MinVersion: tls.VersionTLS13})
	if err == nil && made.ClientCAs != nil {
		made.RootCAs = made.ClientCAs // for the connections that this server makes
	}
	return made, err
}

// place returns where to listen. What other machines can reach demands certificates of authorities
// that are named, unless that was permitted: a certificate of its own alone would let anybody in.
func (e *Embedded) place(at string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(at)
	if err != nil {
		return "", 0, fmt.Errorf("listen at %q: %w", at, err)
	}
	if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen at %q: port %q is no number from 0 to 65535", at, text)
	}
	if e.TLS.Authorities == "" && !e.Plain && !isLoopback(host) {
		return "", 0, fmt.Errorf("anybody on the network could reach %s, listen there and call every function: give Embedded.TLS with Authorities, or permit it by Embedded.Plain", at)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	if port == 0 {
		port = engine.RANDOM_PORT
	}
	return host, port, nil
}

// urls parses where other engines are.
func (e *Embedded) urls(texts []string, secure bool) (all []*url.URL, err error) {
	for _, text := range texts {
		made, err := url.Parse(text)
		if err != nil || made.Host == "" {
			return nil, fmt.Errorf("%q is no URL of an engine, such as nats://b.example:6222", text)
		}
		if !secure && !e.Plain && !isLoopback(made.Hostname()) {
			return nil, fmt.Errorf("calls would go to %s for everybody on the way to read: give Embedded.TLS with Authorities, or permit it by Embedded.Plain", text)
		}
		all = append(all, made)
	}
	return all, nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
