package config_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
)

// Who writes a file need not know how it is read: what does not fit is told with the
// key, with what is expected, and with an example.
func TestMalformed(t *testing.T) {
	for name, row := range map[string]struct{ replace, with, want string }{
		"text for a number":      {`wait_ms = 0`, `wait_ms = "3s"`, `24: wait_ms is "3s": write one whole number, as wait_ms = 5000`},
		"unit":                   {`wait_ms = 0`, `wait_ms = 3s`, `24: wait_ms is 3s: write one whole number, as wait_ms = 5000`},
		"fraction":               {`wait_ms = 0`, `wait_ms = 0.5 # s`, `24: wait_ms is 0.5: write one whole number`},
		"too many digits":        {`held_max = 7`, `held_max = 99999999999999999999`, `34: held_max is 99999999999999999999: write one whole number, as held_max = 8192`},
		"no value":               {`peek_ms = 100`, `peek_ms =`, `31: peek_ms has no value: write peek_ms = 10000`},
		"no quotes":              {`name = "web"`, `name = web`, `3: name is web: write one text in quotes, as name = "web"`},
		"no quotes, like a word": {`"tcp:127.0.0.1:8080"`, `tcp:127.0.0.1:8080`, `4: address is tcp:127.0.0.1:8080: write one text in quotes, as address = "tcp:0.0.0.0:80"`},
		"no second quote":        {`"WWW.Example.com."`, `"www.example.com`, `12: host is "www.example.com: write one text in quotes, as host = "www.example.com"; the second quote is missing`},
		"backslash":              {`"/api"`, `"/a\pi"`, `13: path is "/a\pi": write one text in quotes, as path = "/api"; in quotes a \ is written twice`},
		"number for a text":      {`otherwise = "close"`, `otherwise = 503`, `25: otherwise is 503: write one text in quotes, as otherwise = "503"`},
		"one for several":        {`["unix:/run/p.sock"]`, `"unix:/run/p.sock"`, `28: sockets is "unix:/run/p.sock": write a list of texts in quotes, as sockets = ["unix:`},
		"list without an end":    {`["unix:/run/p.sock"]`, `["unix:/run/p.sock"`, `28: sockets is ["unix:/run/p.sock": write a list of texts in quotes`},
		"number in a list":       {`"4242"]`, `4242]`, `23: users is ["root", 4242]: write a list of texts in quotes, as users = ["www-data"]`},
		"list over lines":        {`["unix:/run/p.sock"]`, "[\n\"unix:/run/p.sock\",\n7\n]", `28: sockets is [: write a list of texts`},
		"word for a truth":       {`defer_accept = true`, `defer_accept = yes`, `6: defer_accept is yes: write true or false, as defer_accept = true`},
		"text for a truth":       {`defer_accept = true`, `defer_accept = "true"`, `6: defer_accept is "true": write true or false`},
		"colon":                  {`wait_ms = 0`, `wait_ms: 0`, `24: there is no = after wait_ms: write wait_ms = 5000`},
		"single brackets":        {`[[route]]`, `[route]`, `11: [route] stands in other brackets here: write [[route]]`},
		"double brackets":        {`[timeouts]`, `[[timeouts]]`, `30: [[timeouts]] stands in other brackets here: write [timeouts]`},
		"backends like routes":   {`[backend.api]`, `[[backend]]`, `21: [[backend]]: each backend has one table, with its name; write [backend.NAME]`},
		"backend without a name": {`[backend.api]`, `[backend]`, `22: [backend] needs a name before it can have sockets: write [backend.NAME]`},
		"name with dots":         {`[backend.api]`, `[backend.www.example.com]`, `21: [backend.www.example.com]: a name with dots stands in quotes; write [backend."www.example.com"]`},
		"bracket missing":        {`[timeouts]`, `[timeouts`, `30: [timeouts is not understood: write [timeouts]`},
		"other bracket missing":  {`[limits]`, `limits]`, `33: limits] is not understood: write [limits]`},
		"table within another":   {"[metrics]\naddress", "metrics", `36: "metrics" is not known here: held_max, held_per_client_max and head_bytes_max are; [metrics] is a table of its own`},
		"key twice":              {`path = "/api"`, "path = \"/api\"\npath = \"/\"", `14: path stands in line 13 already: write it once`},
		"table twice":            {`[backend.pages]`, `[backend.api]`, `27: [backend.api] stands in line 21 already: write it once`},
		"neither":                {`path = "/api"`, `// the api`, `13: this is not understood: a line is a table as [timeouts], a key with its value`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(whole, row.replace, row.with, 1)
			if text == whole {
				t.Fatal("the row changes nothing")
			}
			mustFail(t, text, "front.toml:"+row.want)
		})
	}
}

func TestValueForTable(t *testing.T) {
	mustFail(t, "# one\nmetrics = 9100\n", "front.toml:2: metrics is not a value but a table: write [metrics], and its keys in the lines below it")
}

// What the library that decodes says names types of Go and code points.
var foreign = regexp.MustCompile(`toml:|U\+|struct|TOML|int64|config\.`)

// Whatever is cut out of a file, or put into it, the error is one of this package.
func TestNothingForeign(t *testing.T) {
	for _, put := range []string{"", "\"", "[", "]", "=", "\x00", "\xff", "\n", "{", "'", "x", "7", ".", "#"} {
		for i := range whole {
			_, err := config.Parse("front.tml", []byte(whole[:i]+put+whole[i+1:]))
			if err != nil && foreign.MatchString(err.Error()) {
				t.Fatalf("with %q for %q at %d:\n%v", put, whole[i], i, err)
			}
		}
	}
}

// The other ways to write tables are as good as before.
func TestOtherWaysToWrite(t *testing.T) {
	c, err := config.Parse("front.toml", []byte(`
timeouts = {peek_ms = 100, linger_ms = 7}
limits.held_max = 7
listen = [{address = "unix:/run/front.sock"}]
route = [{host = "*", backend = "www.example.com"}]
[backend]
[backend."www.example.com"]
sockets = [ # one
	"unix:/run/p.sock", 'unix:/run/q.sock',
]
`))
	if err != nil {
		t.Fatal(err)
	}
	if b, found := c.Backend("www.example.com"); !found || len(b.Sockets) != 2 || c.Limits.HeldMax != 7 || c.Timeouts.Linger.Milliseconds() != 7 {
		t.Errorf("got %+v", c)
	}
}
