package examples_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

const pageText = "Hello, file!\n"

const filesPrinted = "page: " + pageText + "compressed: 13 bytes, and back: " + pageText

func filesServer(t *testing.T) (address string) {
	t.Helper()
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "hello.txt"), []byte(pageText), 0o600); err != nil {
		t.Fatal(err)
	}
	_, socket := exampleServer(t, "examples/files_server", directory)
	return "unix:" + socket
}

func TestFiles(t *testing.T) {
	for name, command := range map[string][]string{
		"Go":     {built(t, "examples/files_client")},
		"Perl":   {"perl", "-Mblib=" + built(t, "perl"), "files/client.pl"},
		"Python": {built(t, "examples/venv/bin/python"), "files/client.py"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := output(t, nil, command[0], append(command[1:], filesServer(t))...); got != filesPrinted {
				t.Errorf("printed:\n%swant:\n%s", got, filesPrinted)
			}
		})
	}
}

func TestFilesInC(t *testing.T) {
	target := filepath.Join(t.TempDir(), "page.gz")
	got := output(t, nil, built(t, "examples/files_client_c"), filesServer(t), target)
	if want := "page: " + pageText + "compressed: 13 bytes\n"; got != want {
		t.Errorf("printed:\n%swant:\n%s", got, want)
	}
	file, err := os.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(unpacked); err != nil || string(text) != pageText {
		t.Errorf("%q, %v", text, err)
	}
}
