package command_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Function names come from the server that the command line names.
func TestCompleteFunctionNames(t *testing.T) {
	address := serveDemo(t)
	for _, command := range []string{"call", "bench", "describe"} {
		nearcall(t, "__complete", command, address, "").expect(t, 0, "greet\tGreets a person.\n", "ack\t")
	}
	nearcall(t, "__complete", "call", "").expect(t, 0, "unix:/")
	nearcall(t, "__complete", "gen", "").expect(t, 0, "python\n")
	nearcall(t, "__complete", "bench", "--transport", "").expect(t, 0, "shm\tshared memory\n", "socket\t")
	if got := nearcall(t, "__complete", "call", "unix:/no/such/socket", "").expect(t, 0); strings.Contains(got.out, "greet") {
		t.Fatalf("got %s", got.out)
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := nearcall(t, "completion", shell).expect(t, 0).out
		if shell != "bash" {
			continue
		}
		check := exec.Command("bash", "-n")
		check.Stdin = strings.NewReader(script)
		must(t, check.Run())
	}
}
