package linked_test

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// heavy are what no program is to have that did not ask for it.
var heavy = []string{"crypto/tls", "crypto/x509", "github.com/nats-io"}

// heavyOf returns those packages of heavy that the packages import, directly or not.
func heavyOf(t *testing.T, packages ...string) (found []string) {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-deps"}, packages...)...)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list -deps %v: %v", packages, err)
	}
	for _, path := range strings.Fields(string(out)) {
		if slices.ContainsFunc(heavy, func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }) {
			found = append(found, path)
		}
	}
	return found
}

func TestProgramsThatDoNotImportTLSAreWithoutIt(t *testing.T) {
	if found := heavyOf(t, "./server", "./client", "./embed", "./forward", "./nearcalltest"); len(found) > 0 {
		t.Errorf("who imports server, client, embed, forward or nearcalltest also links %v", found)
	}
}

// The test above would pass if its list named nothing.
func TestProgramsThatImportTLSAreFound(t *testing.T) {
	for _, path := range []string{"./server/servertls", "./client/clienttls"} {
		if found := heavyOf(t, path); !slices.Contains(found, "crypto/tls") {
			t.Errorf("%s was not found to import crypto/tls", path)
		}
	}
}

// libraryNeeds is all that libnearcall.so depends on.
var libraryNeeds = []string{"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

func TestLibraryDependsOnLibcAlone(t *testing.T) {
	file, err := elf.Open(filepath.Join(root, "build/lib/libnearcall.so"))
	if err != nil {
		t.Fatalf("%v; make all builds it", err)
	}
	defer file.Close()
	needed, err := file.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range needed {
		if !slices.Contains(libraryNeeds, library) {
			t.Errorf("libnearcall.so needs %s", library)
		}
	}
	if !slices.Contains(needed, "libc.so.6") {
		t.Errorf("libnearcall.so needs %v: is it that of this machine?", needed)
	}
}
