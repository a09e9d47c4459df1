package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
)

const whole = `
[[listen]]
name = "web"
address = "tcp:127.0.0.1:8080"
protocol = "http"
defer_accept = true

[[listen]]
address = "unix:/run/front.sock"

[[route]]
host = "WWW.Example.com."
path = "/api"
backend = "api"

[[route]]
name = "secure"
server_name = "*.example.com"
backend = "pages"

[backend.api]
sockets = ["unix:/run/a1.sock", "unix:/run/a2.sock"]
users = ["root", "4242"]
wait_ms = 0
otherwise = "close"

[backend.pages]
sockets = ["unix:/run/p.sock"]

[timeouts]
peek_ms = 100

[limits]
held_max = 7

[metrics]
address = "tcp:127.0.0.1:9100"

[control]
address = "unix:/run/control.sock"
`

func TestWholeFile(t *testing.T) {
	c, err := config.Parse("front.toml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Config{
		Path: "front.toml",
		Listens: []config.Listen{
			{Name: "web", Address: "tcp:127.0.0.1:8080", Protocol: config.ProtocolHTTP, DeferAccept: true},
			{Name: "unix:/run/front.sock", Address: "unix:/run/front.sock", Protocol: config.ProtocolAny},
		},
		Routes: []config.Route{
			{Name: "www.example.com/api", Host: "www.example.com", Path: "/api", Backend: "api"},
			{Name: "secure", ServerName: "*.example.com", Backend: "pages"},
		},
		Backends: []config.Backend{
			{Name: "api", Sockets: []string{"unix:/run/a1.sock", "unix:/run/a2.sock"}, Users: []uint32{0, 4242}, Otherwise: config.OtherwiseClose},
			{Name: "pages", Sockets: []string{"unix:/run/p.sock"}, Wait: 5 * time.Second, Otherwise: config.OtherwiseAnswer},
		},
		Timeouts: config.Timeouts{Peek: 100 * time.Millisecond, Linger: time.Second, Health: 200 * time.Millisecond, Drain: 30 * time.Second, HandBack: 5 * time.Second},
		Limits:   config.Limits{HeldMax: 7, HeldPerClientMax: 1024, HeadBytesMax: 65536},
		Metrics:  "tcp:127.0.0.1:9100", Control: "unix:/run/control.sock",
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	if b, found := c.Backend("pages"); !found || b.Name != "pages" {
		t.Errorf("Backend(pages) = %v, %v", b, found)
	}
	if _, found := c.Backend("other"); found {
		t.Error("there is no backend other")
	}
}

// What few need.
func TestFurtherKeys(t *testing.T) {
	text := strings.NewReplacer(
		`protocol = "http"`, "protocol = \"http\"\nproxy_protocol = true", `otherwise = "close"`, "otherwise = \"close\"\nweights = [3, 1]",
		"[timeouts]", "[log]\nhandoffs = true\n[timeouts]").Replace(whole)
	c, err := config.Parse("front.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	api, _ := c.Backend("api")
	pages, _ := c.Backend("pages")
	if !c.Listens[0].ProxyProtocol || c.Listens[1].ProxyProtocol || !c.Log.Handoffs || api.Weight(0) != 3 || api.Weight(1) != 1 || pages.Weight(0) != 1 {
		t.Errorf("got %+v", c)
	}
	for weights, want := range map[string]string{"[1]": "there are 1 weights for 2 sockets", "[0, 1]": "a weight is 0: write 1 to 1000", `"3"`: "a list of whole numbers"} {
		_, err := config.Parse("front.toml", []byte(strings.Replace(text, "[3, 1]", weights, 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("weights = %s: got %v, want %q", weights, err, want)
		}
	}
}

// Each error names the file, the line and what to write instead.
func TestErrors(t *testing.T) {
	for name, row := range map[string]struct {
		replace, with string
		want          []string
	}{
		"unknown key":        {`otherwise = "close"`, `otherwhere = "close"`, []string{`front.toml:25: "otherwhere" is not known here: sockets, weights, users, wait_ms and otherwise are`}},
		"unknown table":      {`[timeouts]`, `[timeout]`, []string{"front.toml:30:", "is not known here", "[timeouts]"}},
		"address missing":    {`address = "tcp:127.0.0.1:8080"`, ``, []string{"front.toml:2: the address is missing: write address ="}},
		"bad address":        {`"tcp:127.0.0.1:8080"`, `"127.0.0.1:8080"`, []string{"front.toml:4: ", "unix, tcp and tls are known"}},
		"parameters":         {`"unix:/run/front.sock"`, `"unix:/run/front.sock?shm=off"`, []string{"front.toml:9: ", "remove what follows the ?"}},
		"bad protocol":       {`protocol = "http"`, `protocol = "https"`, []string{`front.toml:5: protocol is "https": write "http", "tls"`}},
		"two of one name":    {`address = "unix:/run/front.sock"`, "address = \"unix:/run/front.sock\"\nname = \"web\"", []string{`front.toml:8: another [[listen]] has the name "web"`}},
		"deferred Unix":      {`address = "unix:/run/front.sock"`, "address = \"unix:/run/front.sock\"\ndefer_accept = true", []string{"front.toml:10: defer_accept is of TCP"}},
		"backend missing":    {"backend = \"api\"", "", []string{"front.toml:11: the route says no backend", "front.toml:21: no [[route]] leads to backend \"api\""}},
		"backend misspelt":   {"backend = \"api\"", `backend = "apo"`, []string{"front.toml:14: there is no [backend.apo]: write one, or the name of another (api, pages)"}},
		"host and TLS":       {`name = "secure"`, `host = "a.example.com"`, []string{"front.toml:16: host is of requests that can be read"}},
		"path of TLS":        {`name = "secure"`, `path = "/x"`, []string{"front.toml:17: the path of a TLS connection cannot be seen"}},
		"route for nothing":  {`server_name = "*.example.com"`, ``, []string{"front.toml:16: the route says neither"}},
		"relative path":      {`path = "/api"`, `path = "api"`, []string{`front.toml:13: path is "api": write it with a / in front`}},
		"star in the middle": {`"*.example.com"`, `"www.*.com"`, []string{"front.toml:18: ", "a * stands for whole labels"}},
		"URL for host":       {`"WWW.Example.com."`, `"https://www.example.com"`, []string{"front.toml:12: ", "write the bare name"}},
		"empty label":        {`"*.example.com"`, `"a..com"`, []string{"front.toml:18: ", "empty label"}},
		"same route twice":   {`server_name = "*.example.com"`, "host = \"www.example.com\"\npath = \"/api\"", []string{"front.toml:16: another [[route]]"}},
		"no sockets":         {`sockets = ["unix:/run/p.sock"]`, ``, []string{`front.toml:27: backend "pages" has no sockets: write sockets = ["unix:/run/pages.sock"]`}},
		"TCP backend":        {`["unix:/run/p.sock"]`, `["tcp:127.0.0.1:1"]`, []string{"front.toml:28: ", "write unix:/path"}},
		"socket twice":       {`"unix:/run/a2.sock"`, `"unix:/run/a1.sock"`, []string{"front.toml:22: unix:/run/a1.sock is used in line 22 already: write another address, or remove"}},
		"no such user":       {`"4242"`, `"nobody-of-that-name"`, []string{"front.toml:23: there is no user"}},
		"otherwise":          {`"close"`, `"502"`, []string{`front.toml:25: otherwise is "502": write "503"`}},
		"number too small":   {`peek_ms = 100`, `peek_ms = 0`, []string{"front.toml:31: peek_ms is 0: write 1 to 300000"}},
		"no time to answer":  {`peek_ms = 100`, "peek_ms = 100\nlinger_ms = 0", []string{"front.toml:32: linger_ms is 0: write 1 to"}},
		"number too large":   {`held_max = 7`, `held_max = 10000000`, []string{"front.toml:34: held_max is 10000000: write 1 to"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(whole, row.replace, row.with, 1)
			if text == whole {
				t.Fatal("the row changes nothing")
			}
			mustFail(t, text, row.want...)
		})
	}
}

// mustFail checks that an error has all that is wanted, line by line.
func mustFail(t *testing.T, text string, wanted ...string) {
	t.Helper()
	_, err := config.Parse("front.toml", []byte(text))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range wanted {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
}

func TestAllErrorsAtOnce(t *testing.T) {
	_, err := config.Parse("f", []byte("[limits]\nheld_max = 0\n"))
	for _, want := range []string{"f:1: there is no [[listen]]", "f:1: there is no [[route]]", "f:2: held_max"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "front.toml")
	if _, err := config.Read(path); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := config.Read(path); err != nil || c.Path != path {
		t.Errorf("got %v, %v", c, err)
	}
}
