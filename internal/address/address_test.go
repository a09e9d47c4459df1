package address_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/spin"
)

func TestParse(t *testing.T) {
	long := "unix:/" + strings.Repeat("a", address.UnixPathBytesMax-1)
	for _, text := range []string{"unix:/run/demo.sock", "tcp:localhost:80", "tcp:[::1]:80", long,
		"tls:localhost:80", "tls:[::1]:80", "tls:h:1?ca=/a/ca.pem&cert=/a/c.pem&key=/a/k.pem&name=b.example.org&silence=100", "tls:h:1?cert=/c", "tcp:h:1?silence=off&plain=refuse",
	} {
		parsed, err := address.Parse(text, false)
		if err != nil || parsed.String() != text {
			t.Errorf("Parse(%q) = %v, %v", text, parsed, err)
		}
	}
	for _, text := range []string{
		"", "unix", "unix:", "unix:@", "unix:relative", "unix:/a\x00b", long + "a",
		"tcp:", "tcp:host", "tcp:host:", "tcp:::1:80", "http://x", "embed:/x.so", "embed:/x.so?children=own", "/run/demo.sock", "unix:/a?shm",
		"tls:", "tls:host", "tls:h:1?key=/k", "tls:h:1?ca=", "tls:h:1?plain=warn", "tls:h:1?shm=off", "tcp:h:1?ca=/a", "tcp:h:1?plain=no", "tcp:h:1?silence=99",
		"tcp:h:1?silence=300001", "tcp:h:1?silence=1s", "unix:/a?silence=1000", "tls:h:1?ca=/a\x00",
	} {
		if parsed, err := address.Parse(text, true); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, parsed)
		}
	}
}

func TestAbstractIsRefusedUnlessAskedFor(t *testing.T) {
	if _, err := address.Parse("unix:@demo", false); !errors.Is(err, address.ErrAbstract) {
		t.Errorf("error %v, want ErrAbstract", err)
	}
	parsed, err := address.Parse("unix:@demo", true)
	if err != nil || !parsed.Abstract() {
		t.Errorf("Parse = %v, %v", parsed, err)
	}
}

func TestParseList(t *testing.T) {
	for text, want := range map[string]string{
		"unix:/run/a.sock":                        "unix:/run/a.sock",
		"unix:/a | tcp:b:1,c:2":                   "unix:/a | tcp:b:1 tcp:c:2",
		"unix:/a|tcp:[::1]:1, 10.0.0.1:2|unix:/c": "unix:/a | tcp:[::1]:1 tcp:10.0.0.1:2 | unix:/c",
		"unix:/a?shm=off | unix:/b?spin=off":      "unix:/a?shm=off | unix:/b?spin=off",
		"unix:/a,b":                               "unix:/a,b",
		"unix:/a|b":                               "unix:/a|b",
		"unix:/a | b":                             "unix:/a | b",
		"unix:/a,tcp:b:1":                         "unix:/a,tcp:b:1",
		"unix:/a|b|unix:/c":                       "unix:/a|b | unix:/c",
	} {
		list, err := address.ParseList(text, false)
		if err != nil || list.String() != text {
			t.Errorf("ParseList(%q) = %v, %v", text, list, err)
			continue
		}
		var groups []string
		count := 0
		for _, group := range list.Groups {
			var members []string
			for _, endpoint := range group {
				members = append(members, endpoint.String())
				count++
			}
			groups = append(groups, strings.Join(members, " "))
		}
		if got := strings.Join(groups, " | "); got != want || list.Count() != count {
			t.Errorf("ParseList(%q) has %q, %d endpoints; want %q", text, got, list.Count(), want)
		}
	}
	for _, text := range []string{"", "| unix:/a", "unix:/a | tcp:", "tcp:b:1,", "tcp:b:1,,c:2", "tcp:b:1,c", "unix:/a | embed:/x.so",
		"unix:/a | unix:b", "unix:/a | unix:@b", "unix:/a?no=1 | unix:/b"} {
		if list, err := address.ParseList(text, false); err == nil {
			t.Errorf("ParseList(%q) = %v, want an error", text, list.Groups)
		}
	}
}

func TestOneEndpointIsNoList(t *testing.T) {
	for _, text := range []string{"unix:/a | unix:/b", "tcp:a:1,b:2"} {
		if _, err := address.Parse(text, false); err == nil || !strings.Contains(err.Error(), "several endpoints") {
			t.Errorf("Parse(%q): %v", text, err)
		}
	}
	for _, text := range []string{"unix:/a,b", "unix:/a|b", "unix:/a, b | c"} {
		if parsed, err := address.Parse(text, false); err != nil || parsed.String() != text {
			t.Errorf("Parse(%q) = %v, %v", text, parsed, err)
		}
	}
}

func TestParameters(t *testing.T) {
	parsed, err := address.Parse("tls:h:1?ca=/ca&cert=/cert&key=/key&name=other&silence=1500", false)
	want := address.TLS{CA: "/ca", Cert: "/cert", Key: "/key", Name: "other"}
	if err != nil || parsed.TLS != want || parsed.Silence != 1500*time.Millisecond || parsed.Target != "h:1" || parsed.Network != "tls" {
		t.Errorf("Parse = %+v, %v", parsed, err)
	}
	parsed, err = address.Parse("tcp:h:1?plain=quiet&silence=off", false)
	if err != nil || parsed.Plain != address.PlainQuiet || parsed.Silence != address.SilenceOff {
		t.Errorf("Parse = %+v, %v", parsed, err)
	}
	parsed, err = address.Parse("unix:/a?shm=off&spin=dedicated", false)
	if err != nil || !parsed.SharedMemoryOff || parsed.Spin != spin.Dedicated {
		t.Errorf("Parse = %+v, %v", parsed, err)
	}
	if _, err = address.Parse("tcp:h:1?shm=off", false); err == nil || !strings.Contains(err.Error(), "tcp: addresses may have silence and plain") {
		t.Errorf("the error does not say what there is: %v", err)
	}
}
