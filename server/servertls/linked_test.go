package servertls_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestNothingOfTLSIsLinked: into programs that do not import servertls or clienttls.
func TestNothingOfTLSIsLinked(t *testing.T) {
	const module = "github.com/nearcall/nearcall/"
	for _, folder := range []string{"server", "client", "embed", "nearcalltest"} {
		out, err := exec.Command("go", "list", "-deps", module+folder).Output()
		must(t, err)
		packages := strings.Fields(string(out))
		for _, unwanted := range []string{"crypto/tls", "crypto/x509", module + "internal/transport/tls"} {
			if slices.Contains(packages, unwanted) {
				t.Errorf("package %s depends on %s", folder, unwanted)
			}
		}
	}
}
