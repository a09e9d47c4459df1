package main

import (
	"bytes"
	"fmt"
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
