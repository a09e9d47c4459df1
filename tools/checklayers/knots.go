package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A knot is a set of types of which each knows each other by way of some. Where a package
// has no knots but those that its partition names, its types have an order in which all
// other arrows point down.

// checkKnots holds the packages with partitions to the knots that these name.
func checkKnots(root string, files []string) ([]string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, p := range partitions {
		arrows, err := arrowsOf(filepath.Join(root, p.folder), sourcesOf(files, p.folder))
		if err != nil {
			return nil, err
		}
		if arrows != nil {
			problems = append(problems, p.checkKnots(arrows)...)
		}
	}
	return problems, nil
}

// sourcesOf returns the names of a folder's files of Go that are compiled on Linux.
func sourcesOf(files []string, folder string) (names []string) {
	for _, file := range files {
		if filepath.Dir(file) == folder && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			names = append(names, filepath.Base(file))
		}
	}
	return names
}

// typeArrows are, for each type of a package, the types of the package that it knows: by
// its declaration, or by its methods.
type typeArrows map[string]map[string]bool

func arrowsOf(folder string, names []string) (typeArrows, error) {
	linux := build.Default
	linux.GOOS = "linux"
	positions := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range names {
		if fits, err := linux.MatchFile(folder, name); err != nil || !fits {
			if err != nil {
				return nil, err
			}
			continue
		}
		file, err := parser.ParseFile(positions, filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	if !slices.ContainsFunc(parsed, declaresConnection) { // in trees that only tests have
		return nil, nil
	}
	imports, err := compiled(folder)
	if err != nil {
		return nil, err
	}
	return arrowsIn(positions, parsed, importer.ForCompiler(positions, "gc", imports))
}

func declaresConnection(file *ast.File) bool {
	for _, declaration := range file.Decls {
		if partsOf(declaration)["connection"] != nil {
			return true
		}
	}
	return false
}

// compiled returns how to read what a package imports, as the compiler has left it.
func compiled(folder string) (importer.Lookup, error) {
	out, err := output(folder, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", ".")
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }, nil
}

// arrowsIn looks at a package as the compiler does.
func arrowsIn(positions *token.FileSet, files []*ast.File, imports types.Importer) (typeArrows, error) {
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: imports}
	of, err := config.Check("p", positions, files, info)
	if err != nil {
		return nil, err
	}
	arrows := make(typeArrows)
	for _, file := range files {
		for _, declaration := range file.Decls {
			for owner, node := range partsOf(declaration) {
				arrows.add(owner, node, of, info)
			}
		}
	}
	return arrows, nil
}

func (a typeArrows) add(owner string, node ast.Node, of *types.Package, info *types.Info) {
	if a[owner] == nil {
		a[owner] = make(map[string]bool)
	}
	ast.Inspect(node, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			if known := typeOf(info.Uses[name], of); known != "" && known != owner {
				a[owner][known] = true
			}
		}
		return true
	})
}

// typeOf returns the type of the package that an object is, or that a method belongs to.
func typeOf(object types.Object, of *types.Package) string {
	if object == nil || object.Pkg() != of {
		return ""
	}
	switch o := object.(type) {
	case *types.TypeName:
		if o.Parent() == of.Scope() {
			return o.Name()
		}
	case *types.Func:
		receiver := o.Signature().Recv()
		if receiver == nil {
			return ""
		}
		by := receiver.Type()
		if pointer, ok := by.(*types.Pointer); ok {
			by = pointer.Elem()
		}
		if named, ok := by.(*types.Named); ok {
			return named.Obj().Name()
		}
	}
	return ""
}

// checkKnots compares the knots that there are with those that are named.
func (p partition) checkKnots(arrows typeArrows) (problems []string) {
	named := slices.Clone(p.knots)
	for _, knot := range arrows.knots() {
		i := slices.IndexFunc(named, func(n []string) bool { return slices.Equal(n, knot) })
		if i < 0 {
			problems = append(problems, fmt.Sprintf("%s: %s know each other in a circle; take them apart, or name all that are in it in tools/checklayers/parts.go",
				p.folder, strings.Join(knot, ", ")))
			continue
		}
		named = slices.Delete(named, i, i+1)
	}
	for _, knot := range named {
		problems = append(problems, fmt.Sprintf("%s: %s no longer know each other in a circle as tools/checklayers/parts.go has it; name there what is left of it",
			p.folder, strings.Join(knot, ", ")))
	}
	return problems
}

// knots returns the sets of types that can reach each other, each sorted by name.
func (a typeArrows) knots() (knots [][]string) {
	done := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if done[name] {
			continue
		}
		knot := []string{name}
		from := a.reach(name)
		for other := range from {
			if other != name && a.reach(other)[name] {
				knot = append(knot, other)
			}
		}
		for _, member := range knot {
			done[member] = true
		}
		if len(knot) > 1 {
			slices.Sort(knot)
			knots = append(knots, knot)
		}
	}
	return knots
}

// reach returns what a type knows by way of others.
func (a typeArrows) reach(name string) map[string]bool {
	reached := make(map[string]bool)
	next := []string{name}
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		for known := range a[at] {
			if !reached[known] {
				reached[known] = true
				next = append(next, known)
			}
		}
	}
	return reached
}
