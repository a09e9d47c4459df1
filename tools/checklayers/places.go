package main

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var codeExtensions = []string{".go", ".c", ".h", ".cc", ".cpp", ".s", ".xs", ".pl", ".pm", ".py", ".sh"}

// checkPlaces holds files to where they may lie and what they may be called.
func checkPlaces(root string, files []string) ([]string, error) {
	var problems []string
	for _, file := range files {
		if filepath.Dir(file) == "." && slices.Contains(codeExtensions, filepath.Ext(file)) {
			problems = append(problems, file+": the root holds no code; give it a folder")
		}
		for part := range strings.SplitSeq(strings.ToLower(file), "/") {
			if strings.HasPrefix(part, "util") || strings.HasPrefix(part, "common") {
				problems = append(problems, fmt.Sprintf("%s: %q says nothing about what is in it; name it after its idea", file, part))
			}
		}
	}
	mixed, err := checkMixedFolders(root, files)
	return append(problems, mixed...), err
}

// checkMixedFolders: the go command compiles C files it finds beside Go files,
// and fails when none of those uses cgo.
func checkMixedFolders(root string, files []string) ([]string, error) {
	sources := map[string][]string{}
	for _, file := range files {
		if filepath.Ext(file) == ".go" {
			sources[filepath.Dir(file)] = append(sources[filepath.Dir(file)], file)
		}
	}
	var problems []string
	for _, file := range files {
		beside := sources[filepath.Dir(file)]
		if filepath.Ext(file) != ".c" || len(beside) == 0 {
			continue
		}
		cgo, err := anyUsesCgo(root, beside)
		if err != nil {
			return nil, err
		}
		if !cgo {
			problems = append(problems, file+": lies beside Go files that do not use cgo, which breaks their build")
		}
	}
	return problems, nil
}

func anyUsesCgo(root string, sources []string) (bool, error) {
	for _, source := range sources {
		text, err := os.ReadFile(filepath.Join(root, source))
		if err != nil {
			return false, err
		}
		if bytes.Contains(text, []byte("import \"C\"\n")) {
			return true, nil
		}
	}
	return false, nil
}

// marked imports belong into files whose names say so: unsafe, so that a
// reviewer finds all of it, and system calls, so that another system can have
// files of its own.
var marked = []struct {
	path  string
	marks []string // one of them
}{
	{"unsafe", []string{"unsafe"}},
	{systemCalls, []string{"linux", "darwin", "unix", "windows"}},
}

// coreFolders hold what users link into their programs.
var coreFolders = []string{"status", "server", "client", "handoff", "resident", "embed", "internal"}

// checkMarkedImports leaves tests out.
func checkMarkedImports(root string, files []string) ([]string, error) {
	var problems []string
	for _, file := range files {
		core := slices.ContainsFunc(coreFolders, func(folder string) bool { return within(file, folder) })
		if !core || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		imports, err := importsOf(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		words := strings.Split(strings.TrimSuffix(filepath.Base(file), ".go"), "_")
		for _, m := range marked {
			imported := slices.ContainsFunc(imports, func(path string) bool { return within(path, m.path) })
			named := slices.ContainsFunc(m.marks, func(mark string) bool { return slices.Contains(words[1:], mark) })
			if imported && !named {
				problems = append(problems, fmt.Sprintf("%s: imports %s; that is only for files named *_%s.go",
					file, m.path, strings.Join(m.marks, ".go, *_")))
			}
		}
	}
	return problems, nil
}

func importsOf(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var imports []string
	for _, spec := range file.Imports {
		imports = append(imports, strings.Trim(spec.Path.Value, "`\""))
	}
	return imports, nil
}
