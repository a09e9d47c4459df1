package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// checkImports holds every package of every module to the arrows.
func checkImports(root string, files []string) ([]string, error) {
	var problems []string
	for _, file := range files {
		if filepath.Base(file) != "go.mod" {
			continue
		}
		packages, err := listPackages(filepath.Join(root, filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		for _, p := range packages {
			problems = append(problems, checkPackage(p)...)
		}
	}
	requires, err := checkRequires(root)
	return append(problems, requires...), err
}

func listPackages(folder string) ([]goPackage, error) {
	out, err := output(folder, "go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	if err != nil {
		return nil, err
	}
	var packages []goPackage
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list in %s: %w", folder, err)
		}
		packages = append(packages, p)
	}
}

func checkPackage(p goPackage) []string {
	folder, ours := folderOf(p.ImportPath)
	if !ours {
		return []string{fmt.Sprintf("%s: a module of this repository must be named %s/...", p.ImportPath, modulePath)}
	}
	l, ok := layerOf(folder)
	if !ok {
		return []string{fmt.Sprintf("%s: has no place in tools/checklayers/arrows.go; say there what it may import", folder)}
	}
	var problems []string
	for _, path := range p.Imports {
		if path != "C" && !l.allows(path) {
			problems = append(problems, fmt.Sprintf("%s: imports %s, which is not among what %s may import", folder, path, l.folder))
		}
	}
	return append(problems, checkExampleTests(folder, p)...)
}

// checkExampleTests: tests may reach further than what they test, but an example
// shows what users can do, and so do its tests.
func checkExampleTests(folder string, p goPackage) []string {
	if !within(folder, "examples") {
		return nil
	}
	var problems []string
	for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
		if imported, ours := folderOf(path); ours && within(imported, "internal") {
			problems = append(problems, fmt.Sprintf("%s: its tests import %s; examples use what users can", folder, path))
		}
	}
	return problems
}

// checkRequires holds the root's go.mod to the few modules the core may need.
func checkRequires(root string) ([]string, error) {
	out, err := output(root, "go", "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("go mod edit in %s: %w", root, err)
	}
	var problems []string
	for _, r := range mod.Require {
		if !r.Indirect && !slices.Contains(coreRequires, r.Path) {
			problems = append(problems, fmt.Sprintf("go.mod: requires %s; the core may require only %s",
				r.Path, strings.Join(coreRequires, " and ")))
		}
	}
	return problems, nil
}

func output(folder, name string, args ...string) ([]byte, error) {
	command := exec.Command(name, args...)
	command.Dir = folder
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s in %s: %w: %s", name, args[0], folder, err, stderr.String())
	}
	return out, nil
}
