package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

const gatewayConfiguration = `
zone = "west"
listen = "unix:/run/nearcall/gateway.sock"
socket_mode = "0600"
socket_group = "0"
large = "refuse"
direct = "callers"
workers = 16
drain_timeout_ms = 5000

[[export]]
name = "shop"
address = "unix:/run/shop.sock"
functions = ["stock*", "order"]
direct = "tls:a.example:7000"
version = "1.4.0"

[engine]
urls = ["nats://nats.example:4222"]
ca = "/etc/nearcall/ca.pem"

[direct_tls]
ca = "/etc/nearcall/ca.pem"
`

func gatewayFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.toml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestGatewayCheck(t *testing.T) {
	trusted, err := authority.New("machines")
	must(t, err)
	authorities := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(authorities, trusted.PEM(), 0o600))
	path := gatewayFile(t, strings.ReplaceAll(gatewayConfiguration, "/etc/nearcall/ca.pem", authorities))
	nearcall(t, "gateway", "--check", "--config", path).expectOut(t, "the configuration is fine: 1 export, and functions of others at unix:/run/nearcall/gateway.sock\n")
	// Options are added to the file.
	nearcall(t, "gateway", "--check", "--config", path, "--export", "more=unix:/run/more.sock", "--listen", "").expectOut(t, "the configuration is fine: 2 exports\n")
	nearcall(t, "gateway", "--check", "--export", "shop=unix:/run/shop.sock", "--zone", "west", "--engine-listen", "127.0.0.1:0", "--cluster-listen", "127.0.0.1:6222",
		"--route", "nats://127.0.0.1:6223,nats://127.0.0.1:6224", "--workers", "16", "--drain-timeout", "5s", "--large", "refuse", "--direct", "callers", "--plain").
		expectOut(t, "the configuration is fine: 1 export\n")
	// Files that are missing are found as well, and ports that may not be opened.
	nearcall(t, "gateway", "--check", "--config", gatewayFile(t, gatewayConfiguration)).expect(t, 1, "/etc/nearcall/ca.pem: no such file")
	nearcall(t, "gateway", "--check", "--export", "shop=unix:/run/shop.sock", "--cluster-listen", "0.0.0.0:6222").expect(t, 1, "anybody on the network could reach 0.0.0.0:6222")
}

func TestGatewayFileMistakes(t *testing.T) {
	for _, row := range []struct{ from, to, want string }{
		{`zone = "west"`, `zon = "west"`, `gateway.toml:2: "zon" is not known here: there are name, host, zone,`},
		{`version = "1.4.0"`, `versions = "1.4.0"`, `gateway.toml:16: "export.versions" is not known here: there are name, address, functions, direct, version`},
		{`[engine]`, `[engines]`, `gateway.toml:18: "engines" is not known here: there are name,`},
		{`urls = ["nats://nats.example:4222"]`, `urls = "nats://nats.example:4222"`, `gateway.toml:19: urls has a value of another form: write one such as urls = ["nats://nats.example:4222"]`},
		{`workers = 16`, `workers = "16"`, `gateway.toml:8: workers has a value of another form: write one such as workers = 256`},
		{`zone = "west"`, `zone = west`, `gateway.toml:2: this is no TOML`},
		{`"refuse"`, `"split"`, `gateway.toml: large is "split": write pieces, refuse`},
		{`"0600"`, `"rw"`, `gateway.toml: socket_mode is "rw": write octal digits, such as 0660`},
		{`"0"`, `"no such group"`, `gateway.toml: socket_group is "no such group": there is no group of that name or number`},
		{`"callers"`, `"on"`, `gateway.toml: direct is "on": write callers, gateways, off`},
	} {
		text := strings.Replace(gatewayConfiguration, row.from, row.to, 1)
		if text == gatewayConfiguration {
			t.Fatalf("%q changes nothing", row.to)
		}
		nearcall(t, "gateway", "--check", "--config", gatewayFile(t, text)).expect(t, 1, row.want)
	}
	nearcall(t, "gateway", "--config", "/no/such/file").expect(t, 1, "/no/such/file: no such file")
}

func TestGatewayCommandLine(t *testing.T) {
	nearcall(t, "gateway").expect(t, 1, "nothing to do")
	nearcall(t, "gateway", "status").expect(t, 2, "0 arguments where 'nearcall gateway status ADDRESS")
	nearcall(t, "gateway", "unix:/x").expect(t, 2, "1 arguments where 'nearcall gateway")
	nearcall(t, "gateway", "--export", "unix:/x").expect(t, 2, "--export unix:/x: write --export NAME=unix:/path")
	nearcall(t, "gateway", "--workers", "many").expect(t, 2, "--workers many:")
	nearcall(t, "gateway", "--large", "x").expect(t, 2, "--large x: write pieces, refuse")
	nearcall(t, "__complete", "gateway", "--direct", "").expect(t, 0, "callers\ngateways\noff\n")
}
