// Generate writes the constants and tables of every language from
// spec/errors.json and spec/limits.json.
//
// Usage:
//
//	generate [-root DIR] [-check]
//
// With -check it writes nothing: it prints the difference between what is
// checked in and what it would write, and exits with 1 when there is any.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "the repository's folder")
	check := flag.Bool("check", false, "write nothing; fail when a generated file is stale")
	flag.Parse()
	if err := run(*root, *check, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(root string, check bool, out io.Writer) error {
	source, err := load(filepath.Join(root, "spec"))
	if err != nil {
		return err
	}
	pages, err := render(source)
	if err != nil {
		return err
	}
	if check {
		return compareAll(root, pages, out)
	}
	return writeAll(root, pages, out)
}

// render makes every output. The list is the only place that knows which files
// are generated.
func render(source source) ([]page, error) {
	pages := []page{
		{path: "libnearcall/src/base/limits_gen.h", text: limitsHeader(source.limits)},
		{path: "resident/launcher/src/limits_gen.h", text: limitsHeader(launcherLimits(source.limits))},
		{path: "bindings/perl/limits_gen.h", text: limitsHeader(bindingLimits(source.limits))},
		{path: "bindings/python/csrc/limits_gen.h", text: limitsHeader(bindingLimits(source.limits))},
		{path: "libnearcall/src/base/errors_gen.h", text: errorsHeader()},
		{path: "libnearcall/src/base/errors_gen.c", text: errorsTables(source.errors)},
		{path: "libnearcall/include/nearcall.h", text: publicEnums(source.errors), region: &cRegion},
		{path: "bindings/perl/lib/Nearcall/Codes.pm", text: perlModule(source.errors)},
		{path: "bindings/python/nearcall/_codes.py", text: pythonModule(source.errors)},
		{path: "spec/errors.md", text: errorsMarkdown(source.errors), region: &markdownRegion},
		{path: "spec/limits.md", text: limitsMarkdown(source.limits), region: &markdownRegion},
	}
	codes, err := goCodes(source.errors)
	if err != nil {
		return nil, err
	}
	limits, err := goLimits(source.limits)
	if err != nil {
		return nil, err
	}
	return append(pages,
		page{path: "status/codes_gen.go", text: codes},
		page{path: "internal/wire/limits_gen.go", text: limits}), nil
}
