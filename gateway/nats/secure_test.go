package gateway_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	engine "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	gateway "github.com/nearcall/nearcall/gateway/nats"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

// keep writes a file of a test and returns its name.
func keep(t testing.TB, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, text, 0o600))
	return path
}

// newKey returns the public half of a key and its seed.
func newKey(t testing.TB, make func() (nkeys.KeyPair, error)) (pair nkeys.KeyPair, public string, seed []byte) {
	t.Helper()
	pair, err := make()
	must(t, err)
	public, err = pair.PublicKey()
	must(t, err)
	seed, err = pair.Seed()
	must(t, err)
	return pair, public, seed
}

// expectPair expects that gateways with these engines reach each other.
func expectPair(t *testing.T, exporter, importer gateway.Engine) {
	t.Helper()
	b := startBackend(t, "b", "")
	startGateway(t, gateway.Config{Name: "b", Host: "b", Engine: exporter, Exports: []gateway.Export{{Name: "demo", Address: b.address}}})
	a := startGateway(t, gateway.Config{Name: "a", Host: "a", Engine: importer, Listen: here})
	awaitFunction(t, a, "who", 1)
	if counts := answers(t, callAt(t, a.listen), 10); counts["b"] != 10 {
		t.Error(counts)
	}
}

// expectRefusal expects that a gateway cannot use its engine, and says why to its callers.
func expectRefusal(t *testing.T, at gateway.Engine, why string) {
	t.Helper()
	a := startGateway(t, gateway.Config{Name: "stranger", Host: "s", Engine: at, Listen: here})
	c := callAt(t, a.listen)
	var failure *status.Error
	await(t, "a failure that says "+why, func() bool {
		failure = status.FromError(c.Call(context.Background(), "who", nil))
		return failure != nil && strings.Contains(failure.Message, why)
	})
	if failure.Code != status.Unavailable || failure.Outcome != status.OutcomeNotExecuted {
		t.Errorf("%v", failure)
	}
}

func TestNkeys(t *testing.T) {
	_, public, seed := newKey(t, nkeys.CreateUser)
	_, _, stranger := newKey(t, nkeys.CreateUser)
	broker := startEngine(t, engine.Options{Nkeys: []*engine.NkeyUser{{Nkey: public}}})
	with := func(seed []byte) gateway.Engine {
		return gateway.Engine{URLs: []string{broker.ClientURL()}, Nkey: keep(t, "nkey", seed)}
	}
	expectPair(t, with(seed), with(seed))
	expectRefusal(t, with(stranger), "Authorization")
}

func TestCredentialsWithJWT(t *testing.T) {
	operator, trusted, _ := newKey(t, nkeys.CreateOperator)
	accountKey, account, _ := newKey(t, nkeys.CreateAccount)
	claims, err := jwt.NewAccountClaims(account).Encode(operator)
	must(t, err)
	resolver := &engine.MemAccResolver{}
	must(t, resolver.Store(account, claims))
	broker := startEngine(t, engine.Options{TrustedKeys: []string{trusted}, AccountResolver: resolver})
	credentials := func(signer nkeys.KeyPair) gateway.Engine {
		_, user, seed := newKey(t, nkeys.CreateUser)
		signed, err := jwt.NewUserClaims(user).Encode(signer)
		must(t, err)
		text, err := jwt.FormatUserConfig(signed, seed)
		must(t, err)
		return gateway.Engine{URLs: []string{broker.ClientURL()}, Credentials: keep(t, "user.creds", text)}
	}
	expectPair(t, credentials(accountKey), credentials(accountKey))
	another, _, _ := newKey(t, nkeys.CreateAccount)
	expectRefusal(t, credentials(another), "Authorization")
}

// certificates writes certificates of one authority, for servers that are clients as well, and of
// another one.
func certificates(t testing.TB) (own, strangers gateway.TLS) {
	t.Helper()
	made := [2]gateway.TLS{}
	for i := range made {
		a, err := authority.New("engines")
		must(t, err)
		pair, err := a.Issue(authority.Subject{CommonName: "engine", DNSNames: []string{"localhost"}, IPs: authority.Loopback(), Both: true})
		must(t, err)
		made[i] = gateway.TLS{Authorities: keep(t, "ca.pem", a.PEM()), Certificate: keep(t, "engine.pem", pair.Certificate), Key: keep(t, "engine.key", pair.Key)}
	}
	return made[0], made[1]
}

func TestEngineWithTLS(t *testing.T) {
	own, strangers := certificates(t)
	config, err := engine.GenTLSConfig(&engine.TLSConfigOpts{CertFile: own.Certificate, KeyFile: own.Key, CaFile: own.Authorities, Verify: true})
	must(t, err)
	broker := startEngine(t, engine.Options{TLSConfig: config, TLSVerify: true})
	with := func(files gateway.TLS) gateway.Engine {
		return gateway.Engine{URLs: []string{broker.ClientURL()}, TLS: files}
	}
	expectPair(t, with(own), with(own))
	expectRefusal(t, with(gateway.TLS{Authorities: strangers.Authorities, Certificate: own.Certificate, Key: own.Key}), "unknown authority")
	expectRefusal(t, with(gateway.TLS{Authorities: own.Authorities}), "tls")
}

// Engines of gateways form a cluster over TLS, and nobody else gets in.
func TestClusterWithTLS(t *testing.T) {
	own, strangers := certificates(t)
	seed := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	embedded := func(files gateway.TLS, listen string, routes ...string) gateway.Engine {
		return gateway.Engine{Embedded: gateway.Embedded{Listen: "127.0.0.1:0", ClusterListen: listen, Routes: routes, TLS: files}}
	}
	expectPair(t, embedded(own, seed), embedded(own, "127.0.0.1:0", "nats://"+seed))
	b := startBackend(t, "b", "")
	startGateway(t, gateway.Config{Name: "b", Host: "b", Engine: embedded(own, "127.0.0.1:0"), Exports: []gateway.Export{{Name: "demo", Address: b.address}}})
	a := startGateway(t, gateway.Config{Name: "stranger", Host: "s", Engine: embedded(strangers, "127.0.0.1:0", "nats://"+seed), Listen: here})
	await(t, "the gateway to know that nobody else is there", func() bool {
		code, _ := outcomeOf(callAt(t, a.listen).Call(context.Background(), "who", nil))
		return code == status.Unimplemented
	})
	await(t, "a status that says what is wrong", func() bool { return strings.Contains(a.Status().Engine.Trouble, "certificate") })
}

// A gateway does not check the certificate of its own engine, which is for other machines.
func TestOwnEngineWithTLS(t *testing.T) {
	a, err := authority.New("engines")
	must(t, err)
	pair, err := a.Issue(authority.Subject{CommonName: "b", DNSNames: []string{"b.example"}, Both: true})
	must(t, err)
	files := gateway.TLS{Authorities: keep(t, "ca.pem", a.PEM()), Certificate: keep(t, "b.pem", pair.Certificate), Key: keep(t, "b.key", pair.Key)}
	b := startBackend(t, "b", "")
	g := startGateway(t, gateway.Config{Host: "b", Listen: here, Exports: []gateway.Export{{Name: "demo", Address: b.address}},
		Engine: gateway.Engine{TLS: files, Embedded: gateway.Embedded{Listen: "127.0.0.1:0", TLS: files}}})
	await(t, "the gateway to be connected to its own engine", func() bool { return g.Status().Engine.Connected })
}

// A gateway's engine is a leaf node of another one.
func TestLeafNode(t *testing.T) {
	hub := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	embedded := func(e gateway.Embedded) gateway.Engine {
		e.Listen = "off"
		return gateway.Engine{Embedded: e}
	}
	expectPair(t, embedded(gateway.Embedded{LeafListen: hub}), embedded(gateway.Embedded{Leafs: []string{"nats-leaf://" + hub}}))
}

// What is wrong with a Config is said before anything is begun.
func TestConfigs(t *testing.T) {
	export := []gateway.Export{{Name: "demo", Address: "unix:/run/demo.sock"}}
	embedded := func(e gateway.Embedded) gateway.Config {
		return gateway.Config{Exports: export, Engine: gateway.Engine{Embedded: e}}
	}
	alone, _ := certificates(t)
	alone.Authorities = ""
	for what, row := range map[string]struct {
		config gateway.Config
		says   string
	}{
		"nothing to do":        {gateway.Config{}, "nothing to do"},
		"listening to others":  {gateway.Config{Listen: "tcp:127.0.0.1:1"}, "only local sockets"},
		"a name with a dot":    {gateway.Config{Exports: []gateway.Export{{Name: "a.b", Address: "unix:/s"}}}, "a name has at most"},
		"a name twice":         {gateway.Config{Exports: append(export, export...)}, "two exports"},
		"a server elsewhere":   {gateway.Config{Exports: []gateway.Export{{Name: "a", Address: "tcp:b:1"}}}, "begins with \"unix:"},
		"a pattern":            {gateway.Config{Exports: []gateway.Export{{Name: "a", Address: "unix:/s", Functions: []string{"["}}}}, "pattern"},
		"a prefix":             {gateway.Config{Exports: export, Prefix: "a.*"}, "prefix"},
		"a version":            {gateway.Config{Exports: []gateway.Export{{Name: "a", Address: "unix:/s", Version: "1.5"}}}, "semantic version"},
		"control characters":   {gateway.Config{Exports: export, Zone: "a\nb"}, "control characters"},
		"workers":              {gateway.Config{Exports: export, Workers: 1 << 20}, "gateway_workers"},
		"two kinds of keys":    {gateway.Config{Exports: export, Engine: gateway.Engine{URLs: []string{"nats://b"}, Nkey: "n", Credentials: "c"}}, "one of both"},
		"keys for itself":      {gateway.Config{Exports: export, Engine: gateway.Engine{Nkey: "n"}}, "give its URL"},
		"half a certificate":   {gateway.Config{Exports: export, Engine: gateway.Engine{URLs: []string{"nats://b"}, TLS: gateway.TLS{Certificate: "c"}}}, "belong together"},
		"no file":              {gateway.Config{Exports: export, Engine: gateway.Engine{URLs: []string{"nats://b"}, Nkey: "/no/such"}}, "no such file"},
		"open to the network":  {embedded(gateway.Embedded{Listen: "0.0.0.0:0"}), "Embedded.TLS"},
		"a certificate alone":  {embedded(gateway.Embedded{Listen: "127.0.0.1:0", ClusterListen: "0.0.0.0:0", TLS: alone}), "with Authorities"},
		"an open cluster":      {embedded(gateway.Embedded{Listen: "off", ClusterListen: ":0"}), "Embedded.TLS"},
		"a route in the clear": {embedded(gateway.Embedded{Listen: "off", ClusterListen: "127.0.0.1:0", Routes: []string{"nats://192.0.2.1:6222"}}), "Embedded.TLS"},
		"a cluster that waits": {embedded(gateway.Embedded{Listen: "off", ClusterListen: "127.0.0.1:0"}), "not off"},
		"routes alone":         {embedded(gateway.Embedded{Listen: "off", Routes: []string{"nats://127.0.0.1:6222"}}), "ClusterListen"},
		"a port in use":        {embedded(gateway.Embedded{Listen: startEngine(t, engine.Options{}).Addr().String()}), "address already in use"},
	} {
		t.Run(what, func(t *testing.T) {
			row.config.Logger = logger(t, "g")
			made, err := gateway.New(row.config)
			if err == nil {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				err = made.Run(ctx)
			}
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v, want something about %s", err, row.says)
			}
		})
	}
}
