package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readmeLinesMax is what can be read in five minutes.
const readmeLinesMax = 150

func TestReadmeIsShort(t *testing.T) {
	if lines := strings.Count(content(t, "../README.md"), "\n"); lines > readmeLinesMax {
		t.Errorf("README.md has %d lines, at most %d", lines, readmeLinesMax)
	}
}

// readmeAddress is where the README's server listens.
const readmeAddress = "unix:/run/demo/nearcall.sock"

// readmeCode is the README's code in a language, with another address.
func readmeCode(t *testing.T, language, address string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)\n```"+language+"\n(.*?)```\n").FindAllStringSubmatch(content(t, "../README.md"), -1)
	if len(found) != 1 || !strings.Contains(found[0][1], readmeAddress) {
		t.Fatalf("README.md has the code %q in %s; there is to be one piece, with the address %s", found, language, readmeAddress)
	}
	return strings.ReplaceAll(found[0][1], readmeAddress, address)
}

// readmeServer is a program around the README's lines of Go.
func readmeServer(lines string) string {
	return `package main

import (
	"context"
	"log"

	"github.com/nearcall/nearcall/server"
)

func main() {
	ctx := context.Background()
` + lines + `	log.Fatal(err)
}
`
}

// startReadmeServer builds and starts that program, and returns its address.
func startReadmeServer(t *testing.T) (address string) {
	t.Helper()
	folder := socketFolder(t)
	socket, source, program := filepath.Join(folder, "nearcall.sock"), filepath.Join(folder, "main.go"), filepath.Join(folder, "server")
	address = "unix:" + socket
	if err := os.WriteFile(source, []byte(readmeServer(readmeCode(t, "go", address))), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("the README's server: %v\n%s", err, said)
	}
	start(t, nil, program)
	awaitListening(t, socket)
	return address
}

// The README's lines do what it says of them.
func TestReadme(t *testing.T) {
	said := regexp.MustCompile("each of these prints `([^`]+)`").FindStringSubmatch(content(t, "../README.md"))
	if said == nil {
		t.Fatal("README.md does not say what its lines print")
	}
	address := startReadmeServer(t)
	path := "PATH=" + built(t, "bin") + ":" + os.Getenv("PATH")
	for language, command := range map[string][]string{
		"perl":   {"perl", "-Mblib=" + built(t, "perl")},
		"python": {built(t, "examples/venv/bin/python")},
		"sh":     {"sh"},
	} {
		program := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(program, []byte(readmeCode(t, language, address)), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := output(t, []string{path}, command[0], append(command[1:], program)...); got != said[1]+"\n" {
			t.Errorf("the README's lines of %s print %q, not %s", language, got, said[1])
		}
	}
}
