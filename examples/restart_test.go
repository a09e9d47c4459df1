package examples_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// The guide's lines are those of the program.
func TestGuideOfRestart(t *testing.T) {
	page := content(t, filepath.Join(root(t), "docs/guides/handoff.md"))
	_, section, found := strings.Cut(page, "### A program that replaces itself\n")
	section, _, ended := strings.Cut(section, "\n#")
	if !found || !ended {
		t.Fatal("the guide does not say how a program replaces itself")
	}
	program, shown := content(t, "restart/main.go"), 0
	for line := range strings.Lines(section) {
		text, is := strings.CutPrefix(line, "    ")
		if text = strings.TrimSpace(text); !is || text == "..." {
			continue
		}
		if shown++; !strings.Contains(program, "\t"+text+"\n") {
			t.Errorf("the program has no line %q", text)
		}
	}
	if shown < 8 {
		t.Errorf("the guide shows %d lines of it", shown)
	}
}

// A server replaces itself, again and again, under load of clients that keep their
// connections and of such that do not. No request fails.
func TestRestart(t *testing.T) {
	for name, header := range map[string]string{"kept alive": "X: y", "one request each": "Connection: close"} {
		t.Run(name, func(t *testing.T) { replaceUnderLoad(t, header) })
	}
}

func replaceUnderLoad(t *testing.T, header string) {
	folder, err := os.MkdirTemp("", "nearcall-") // t.TempDir() may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	program := filepath.Join(folder, "restart")
	output(t, nil, "go", "build", "-o", program, "./restart")
	port := freePort(t)
	first := start(t, nil, program, "127.0.0.1:"+port, "unix:"+filepath.Join(folder, "control.sock"))
	url := "http://127.0.0.1:" + port + "/"
	await(t, "it serves", func() bool {
		connection, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
	report := make(chan string, 1)
	go func() { report <- output(t, nil, "wrk", "-t1", "-c8", "-d5s", "-H", header, url) }()
	seen := map[int]bool{}
	const processes = 6
	await(t, fmt.Sprint(processes, " processes have served"), func() bool {
		var pid int
		answer := output(t, nil, "curl", "-sS", url)
		if _, err := fmt.Sscanf(answer, "process %d:", &pid); err != nil {
			t.Fatalf("curl printed %q", answer)
		}
		if !seen[pid] {
			seen[pid] = true
			if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
				t.Error(err)
			}
		}
		return len(seen) == processes
	})
	<-first.ended // It was replaced.
	text := <-report
	if strings.Contains(text, "Socket errors") || strings.Contains(text, "Non-2xx") || !regexp.MustCompile(`\d+ requests in`).MatchString(text) {
		t.Errorf("wrk says\n%s", text)
	}
	t.Log(regexp.MustCompile(`\d+ requests in`).FindString(text))
}
