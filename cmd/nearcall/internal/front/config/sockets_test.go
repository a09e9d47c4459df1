package config_test

import (
	"strings"
	"testing"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
)

func TestPorts(t *testing.T) {
	for _, port := range []string{"65536", "99999999999999999999", "-1", "no-such-service"} {
		text := strings.Replace(whole, "tcp:127.0.0.1:8080", "tcp:127.0.0.1:"+port, 1)
		mustFail(t, text, `front.toml:4: address "tcp:127.0.0.1:`+port+`": there is no port "`+port+`": write a number from 1 to 65535`)
	}
	mustFail(t, strings.Replace(whole, "tcp:127.0.0.1:9100", "tcp:127.0.0.1:91000", 1), `front.toml:37: address "tcp:127.0.0.1:91000": there is no port`)
	for _, port := range []string{"65535", "http", "0"} {
		if _, err := config.Parse("front.toml", []byte(strings.Replace(whole, "tcp:127.0.0.1:8080", "tcp:127.0.0.1:"+port, 1))); err != nil {
			t.Errorf("port %s: %v", port, err)
		}
	}
}

// Of two that are to listen on one socket the one further down is told.
func TestUsedTwice(t *testing.T) {
	const told = " already: write another address, or remove one of them"
	for name, row := range map[string]struct{ replace, with, want string }{
		"two listeners":         {`"unix:/run/front.sock"`, `"tcp:127.0.0.1:8080"`, `9: tcp:127.0.0.1:8080 is used in line 4` + told},
		"metrics":               {`"tcp:127.0.0.1:9100"`, `"tcp:127.0.0.1:8080"`, `37: tcp:127.0.0.1:8080 is used in line 4` + told},
		"control":               {`"unix:/run/control.sock"`, `"unix:/run/front.sock"`, `40: unix:/run/front.sock is used in line 9` + told},
		"metrics and control":   {`"tcp:127.0.0.1:9100"`, `"unix:/run/control.sock"`, `40: unix:/run/control.sock is used in line 37` + told},
		"backend of a listener": {`"unix:/run/p.sock"`, `"unix:/run/front.sock"`, `28: unix:/run/front.sock is used in line 9` + told},
		"backend and control":   {`"unix:/run/a2.sock"`, `"unix:/run/control.sock"`, `40: unix:/run/control.sock is used in line 22` + told},
		"another path to it":    {`"unix:/run/control.sock"`, `"unix:/run//x/../front.sock"`, `40: unix:/run//x/../front.sock is used in line 9 already, as unix:/run/front.sock: write`},
		"all addresses":         {`"tcp:127.0.0.1:9100"`, `"tcp:0.0.0.0:8080"`, `37: tcp:0.0.0.0:8080 is used in line 4 already, as tcp:127.0.0.1:8080: write`},
		"no host":               {`"unix:/run/front.sock"`, `"tcp::8080"`, `9: tcp::8080 is used in line 4 already, as tcp:127.0.0.1:8080: write`},
		"port by name":          {`"unix:/run/front.sock"`, `"tcp:127.0.0.1:http-alt"`, `9: tcp:127.0.0.1:http-alt is used in line 4 already, as tcp:127.0.0.1:8080: write`},
	} {
		t.Run(name, func(t *testing.T) {
			mustFail(t, strings.Replace(whole, row.replace, row.with, 1), "front.toml:"+row.want)
		})
	}
}

func TestUsedSideBySide(t *testing.T) {
	for name, row := range map[string][2]string{
		"a process of two backends": {`"unix:/run/p.sock"`, `"unix:/run/a1.sock"`},
		"another port":              {`"unix:/run/front.sock"`, `"tcp:127.0.0.1:8081"`},
		"another address":           {`"unix:/run/front.sock"`, `"tcp:127.0.0.2:8080"`},
		"IPv6":                      {`"unix:/run/front.sock"`, `"tcp:[::]:8080"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := config.Parse("front.toml", []byte(strings.Replace(whole, row[0], row[1], 1))); err != nil {
				t.Error(err)
			}
		})
	}
	anyPort := strings.NewReplacer("tcp:127.0.0.1:8080", "tcp:127.0.0.1:0", "tcp:127.0.0.1:9100", "tcp:127.0.0.1:0")
	if _, err := config.Parse("front.toml", []byte(anyPort.Replace(whole))); err != nil {
		t.Error(err)
	}
	mustFail(t, "[[listen]]\naddress = \"tcp::0\"\n[[listen]]\naddress = \"tcp::0\"\n", "front.toml:4: tcp::0 is used in line 2")
}
