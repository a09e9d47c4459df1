package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A partition says which parts a package consists of: types, level by level from the
// bottom. A part may know those of its own level and of lower ones. All types of the
// package, parts or not, may know each other in circles only where knots has them.
type partition struct {
	folder string
	levels [][]string
	knots  [][]string
}

// partitions are those that ARCHITECTURE.md describes.
var partitions = []partition{
	{"server", [][]string{
		{"budget", "share", "claim", "queue", "bufferPool", "readBuffers"},
		{"role", "input", "output", "received", "memory"},
		{"callTable"},
		{"reader", "connection", "service"},
	}, [][]string{
		// A claim on a share of a budget waits in a queue, and the budget lets the next one go on.
		{"budget", "claim", "queue", "share"},
		// A call and the connection that it answers on, up to the server whose options it has;
		// interceptors see the call, and groups and libraries call by the server.
		{"Group", "Server", "callTable", "connection", "execution", "functionTable", "inProcess", "inProcessRun",
			"interceptedCall", "interceptedReply", "interceptedRequest", "lifetime", "reader", "service"},
	}},
	{"client", [][]string{
		{"input", "received", "startMarks", "callTable", "partialFrame", "placeQueue", "pingTable"},
		{"role", "output", "memory"},
		{"reader", "state"},
		{"connection", "endpoint", "route"},
	}, [][]string{
		// A function as a server describes it, and the types that callers use it with.
		{"describedFunction", "functionTable", "usage"},
		// A call and the connection that it waits on, up to the client that makes connections
		// and chooses among endpoints, or follows directions.
		{"arrival", "call", "callTable", "connection", "core", "counts", "direction", "directions", "ending", "endpoint", "endpointFailure", "hostName", "interceptedCall",
			"interceptedReply", "interceptedRequest", "lostConnection", "reader", "role", "route", "search", "slot", "state", "toldPlace"},
	}},
}

// checkParts holds the packages with partitions to them. Trees without such a package,
// which only tests have, are left alone.
func checkParts(root string, files []string) ([]string, error) {
	var problems []string
	for _, p := range partitions {
		sources := make(map[string]string)
		for _, file := range files {
			if filepath.Dir(file) != p.folder || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				return nil, err
			}
			sources[file] = string(text)
		}
		found, err := p.check(sources)
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	return problems, nil
}

// check returns a sentence for each part that knows a higher one, or that is not there
// although others are.
func (p partition) check(sources map[string]string) ([]string, error) {
	var problems []string
	declared := make(map[string]bool)
	positions := token.NewFileSet()
	for name, text := range sources {
		file, err := parser.ParseFile(positions, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declaration := range file.Decls {
			for part, node := range partsOf(declaration) {
				declared[part] = true
				for _, above := range p.above(part) {
					if at := mention(node, above); at.IsValid() {
						problems = append(problems, fmt.Sprintf("%s: %s knows %s, which is above it; tools/checklayers/parts.go has their order",
							positions.Position(at), part, above))
					}
				}
			}
		}
	}
	for _, part := range slices.Concat(p.levels...) {
		if declared["connection"] && !declared[part] {
			problems = append(problems, fmt.Sprintf("%s: has no type %s, which tools/checklayers/parts.go names", p.folder, part))
		}
	}
	slices.Sort(problems)
	return problems, nil
}

// above returns the parts that one may not know.
func (p partition) above(part string) []string {
	for i, level := range p.levels {
		if slices.Contains(level, part) {
			return slices.Concat(p.levels[i+1:]...)
		}
	}
	return nil
}

// partsOf returns what belongs to each type in a declaration: a type itself, or a method.
func partsOf(declaration ast.Decl) map[string]ast.Node {
	parts := make(map[string]ast.Node)
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			parts[receiver(d)] = d
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if made, ok := spec.(*ast.TypeSpec); ok {
				parts[made.Name.Name] = made
			}
		}
	}
	return parts
}

// receiver returns the name of the type that a method belongs to, or "" for a kind of
// type that no part is.
func receiver(method *ast.FuncDecl) string {
	of := method.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// mention returns where a name is used, be it a type's or that of a field which leads to
// one.
func mention(node ast.Node, name string) (at token.Pos) {
	ast.Inspect(node, func(n ast.Node) bool {
		if found, ok := n.(*ast.Ident); ok && found.Name == name && !at.IsValid() {
			at = found.Pos()
		}
		return !at.IsValid()
	})
	return at
}
