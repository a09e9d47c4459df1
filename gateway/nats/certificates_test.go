package gateway_test

import (
	"strings"
	"testing"
	"time"

	gateway "github.com/nearcall/nearcall/gateway/nats"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

// Files that cannot work are refused before anything is begun, which is also what --check looks at.
func TestFilesThatCannotWork(t *testing.T) {
	own, strangers := certificates(t)
	trusted, err := authority.New("engines")
	must(t, err)
	issue := func(s authority.Subject) gateway.TLS {
		s.CommonName, s.IPs = "engine", authority.Loopback()
		pair, err := trusted.Issue(s)
		must(t, err)
		return gateway.TLS{Authorities: keep(t, "ca.pem", trusted.PEM()), Certificate: keep(t, "engine.pem", pair.Certificate), Key: keep(t, "engine.key", pair.Key)}
	}
	cluster := func(files gateway.TLS) gateway.Engine {
		return gateway.Engine{Embedded: gateway.Embedded{Listen: "127.0.0.1:0", ClusterListen: "127.0.0.1:0", TLS: files}}
	}
	elsewhere := func(files gateway.TLS) gateway.Engine {
		return gateway.Engine{URLs: []string{"tls://nats.example"}, TLS: files}
	}
	for what, row := range map[string]struct {
		engine gateway.Engine
		says   string // or "" if they are fine
	}{
		"fine":                        {cluster(own), ""},
		"for clients, elsewhere":      {elsewhere(issue(authority.Subject{Client: true})), ""},
		"no authorities":              {cluster(gateway.TLS{Authorities: "/no/such", Certificate: own.Certificate, Key: own.Key}), "/no/such"},
		"authorities without PEM":     {elsewhere(gateway.TLS{Authorities: keep(t, "none.pem", nil)}), "no certificate in PEM"},
		"a key of another":            {cluster(gateway.TLS{Authorities: own.Authorities, Certificate: own.Certificate, Key: strangers.Key}), "private key does not match"},
		"authorities of others":       {cluster(gateway.TLS{Authorities: strangers.Authorities, Certificate: own.Certificate, Key: own.Key}), "no authority in"},
		"for servers only":            {cluster(issue(authority.Subject{})), "clientAuth"},
		"for clients only":            {cluster(issue(authority.Subject{Client: true})), "serverAuth"},
		"for servers only, elsewhere": {elsewhere(issue(authority.Subject{})), "clientAuth"},
		"expired":                     {cluster(issue(authority.Subject{Both: true, Until: time.Now().Add(-time.Hour)})), "renew it"},
		"no credentials":              {gateway.Engine{URLs: []string{"nats://127.0.0.1"}, Credentials: "/no/such"}, "/no/such"},
	} {
		_, err := gateway.New(gateway.Config{Listen: "unix:/s", Engine: row.engine, Logger: logger(t, "g")})
		if row.says == "" && err != nil || row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)) {
			t.Errorf("%s: %v, want something about %q", what, err, row.says)
		}
	}
}
