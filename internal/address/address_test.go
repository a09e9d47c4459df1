package address_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/internal/address"
)

func TestParse(t *testing.T) {
	long := "unix:/" + strings.Repeat("a", address.UnixPathBytesMax-1)
	for _, text := range []string{"unix:/run/demo.sock", "tcp:localhost:80", "tcp:[::1]:80", long} {
		parsed, err := address.Parse(text, false)
		if err != nil || parsed.String() != text {
			t.Errorf("Parse(%q) = %v, %v", text, parsed, err)
		}
	}
	for _, text := range []string{
		"", "unix", "unix:", "unix:@", "unix:relative", "unix:/a\x00b", long + "a",
		"tcp:", "tcp:host", "tcp:host:", "tcp:::1:80", "http://x", "embed:/x.so", "embed:/x.so?children=own", "/run/demo.sock", "unix:/a?shm",
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
