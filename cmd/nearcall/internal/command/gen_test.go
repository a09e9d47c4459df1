package command_test

import (
	"os"
	"path/filepath"
	"testing"
)

// That the generated code compiles and works is tested beside the generator.
func TestGen(t *testing.T) {
	address := serveDemo(t)
	path := schemaFile(t, address)
	for language, text := range map[string]string{
		"c": "static inline int shop_ack(", "go": "package shop", "perl": "package Shop;", "python": "class Shop:",
	} {
		got := nearcall(t, "gen", language, "--package", "shop", address).expect(t, 0, text)
		output := filepath.Join(t.TempDir(), "file")
		nearcall(t, "gen", language, path, "--package", "shop", "--output", output).expectOut(t, "")
		written, err := os.ReadFile(output)
		must(t, err)
		if string(written) != got.out {
			t.Fatalf("%s: from the file it is another text", language)
		}
	}
	nearcall(t, "gen", "cobol", path).expect(t, 2, "c, go, perl, python are known")
	nearcall(t, "gen", "go", "--package", "a-b", path).expect(t, 2, "cannot be a name")
	nearcall(t, "gen", "go", path, "--output", "/no/such/directory/file").expect(t, 1, "choose another --output")
	nearcall(t, "gen", "go", "unix:/no/such/socket").expect(t, 78)
}

func TestGenService(t *testing.T) {
	directory := t.TempDir()
	must(t, os.WriteFile(filepath.Join(directory, "shop.go"), []byte("package shop\n\ntype Shop struct{}\n\nfunc (s *Shop) Buy(count int64) {}\n"), 0o600))
	got := nearcall(t, "gen", "service", "Shop", "--directory", directory).expect(t, 0, `"Buy": {server.Params("count")}`)
	output := filepath.Join(directory, "shop_functions.go")
	nearcall(t, "gen", "service", "Shop", "--directory", directory, "--output", output).expectOut(t, "")
	written, err := os.ReadFile(output)
	must(t, err)
	if string(written) != got.out {
		t.Fatal("in the file is another text")
	}
	nearcall(t, "gen", "service", "Other", "--directory", directory).expect(t, 2, "Other")
}
