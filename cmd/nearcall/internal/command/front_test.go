package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const frontConfiguration = `
[[listen]]
address = "tcp:127.0.0.1:0"
[[route]]
host = "*"
backend = "pages"
[backend.pages]
sockets = ["unix:/run/pages.sock"]
`

func frontFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "front.toml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestFrontCheck(t *testing.T) {
	path := frontFile(t, frontConfiguration)
	nearcall(t, "front", "--check", path).expectOut(t, path+" is fine: 1 listeners, 1 routes, 1 backends\n")
	path = frontFile(t, frontConfiguration+"wait = 1\n[limits]\nheld_max = 0\n")
	nearcall(t, "front", "--check", path).expect(t, 1, path+`:9: "wait" is not known here: sockets, weights, users, wait_ms and otherwise are`)
	nearcall(t, "front", "--check", "/no/such/file").expect(t, 1, "/no/such/file: no such file or directory")
}

func TestFrontLogsJSON(t *testing.T) {
	path := frontFile(t, strings.Replace(frontConfiguration, "127.0.0.1:0", "192.0.2.1:1", 1))
	nearcall(t, "front", "--json", "--takeover", "unix:/no/such/socket", path).expect(t, 1,
		`"msg":"there is no front to take over from","address":"unix:/no/such/socket"`, "cannot listen on tcp:192.0.2.1:1")
}

func TestFrontCommandLine(t *testing.T) {
	nearcall(t, "front").expect(t, 2, "0 arguments where 'nearcall front CONFIG")
	nearcall(t, "front", "--takeover", "/run/control.sock", frontFile(t, frontConfiguration)).expect(t, 2, "write unix:/path")
}

// The configuration in the guide is one.
func TestFrontGuide(t *testing.T) {
	configuration := guideFile(t, "../../../../docs/guides/handoff.md", "front.toml")
	nearcall(t, "front", "--check", configuration).expect(t, 0, "1 listeners, 2 routes, 2 backends")
}
