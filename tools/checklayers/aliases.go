package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// programs are the folders whose packages nobody imports.
var programs = []string{"benchmarks", "bindings", "cmd", "conformance", "examples", "libnearcall", "tests", "tools"}

// checkAliases finds public types that are another name for a type of an internal package:
// its documentation could not be read, and it could not change without a break.
func checkAliases(root string, files []string) ([]string, error) {
	var problems []string
	for _, file := range files {
		if !isPublicSource(filepath.ToSlash(file)) {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		found, err := aliasesIn(file, source)
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	return problems, nil
}

func isPublicSource(file string) bool {
	folders := strings.Split(path.Dir(file), "/")
	return strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") &&
		!slices.Contains(folders, "internal") && !slices.Contains(folders, "testdata") && !slices.Contains(programs, folders[0])
}

func aliasesIn(file string, source []byte) (problems []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	internal := map[string]bool{}
	for _, imported := range parsed.Imports {
		from, err := strconv.Unquote(imported.Path.Value)
		if err != nil {
			return nil, err
		}
		name := path.Base(from)
		if imported.Name != nil {
			name = imported.Name.Name
		}
		internal[name] = strings.Contains(from+"/", "/internal/")
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.TypeSpec)
		if !ok || !spec.Assign.IsValid() || !spec.Name.IsExported() {
			return true
		}
		if from := firstPackage(spec.Type); internal[from] {
			problems = append(problems, fmt.Sprintf("%s: type %s is another name for a type of the internal package %s; declare one of its own", file, spec.Name.Name, from))
		}
		return true
	})
	return problems, nil
}

// firstPackage returns the name of the package that a type comes from, "" if it is from none.
func firstPackage(of ast.Expr) (name string) {
	ast.Inspect(of, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if ok && name == "" {
			if from, ok := selector.X.(*ast.Ident); ok {
				name = from.Name
			}
		}
		return true
	})
	return name
}
