package command

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// entrySymbol is what libnearcall looks up in a library.
const entrySymbol = "nearcall_embed_library"

// A building is one run of `nearcall build`.
type building struct {
	*program
	output string
	json   bool
}

func (p *program) buildCommand() *cobra.Command {
	run := &building{program: p}
	cmd := &cobra.Command{
		Use:   "build PACKAGE -o FILE [-- GO-BUILD-FLAGS...]",
		Short: "Build functions into a library that other languages load",
		Long: `build runs 'go build -buildmode=c-shared' for a package main that calls
embed.Serve, checks what the library exports, and only then puts it in its place.
Processes that have loaded an older library keep that one. build needs go and a C
compiler.`,
		Example: `  nearcall build ./examples/hello/library -o /tmp/hello/libhello.so
  nearcall build ./library -o libdemo.so -- -trimpath -ldflags=-s`,
		Args: arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if run.output == "" {
				return usageError{fmt.Errorf("-o FILE is missing: where the library goes, as libdemo.so")}
			}
			return run.run(cmd.Context(), args[0], args[1:])
		},
	}
	cmd.Flags().StringVarP(&run.output, "output", "o", "", "the library to write, as libdemo.so")
	cmd.Flags().BoolVar(&run.json, "json", false, "print a JSON object")
	return cmd
}

func (b *building) run(ctx context.Context, target string, flags []string) error {
	directory, err := os.MkdirTemp(filepath.Dir(b.output), ".nearcall-build-")
	if err != nil {
		return fmt.Errorf("cannot write beside %s: %w; the directory has to exist, and to be yours to write in", b.output, err)
	}
	defer os.RemoveAll(directory)
	// Beside its place, so that it can be renamed into it.
	made := filepath.Join(directory, filepath.Base(b.output))
	if err := b.goBuild(ctx, made, target, flags); err != nil {
		return err
	}
	exports, err := exportsOf(made)
	if err != nil {
		return err
	}
	if !slices.Contains(exports, entrySymbol) {
		return fmt.Errorf("%s does not import github.com/nearcall/nearcall/embed: its package main has to call embed.Serve in a function init", target)
	}
	if err := os.Rename(made, b.output); err != nil {
		return err
	}
	return b.tell(exports)
}

func (b *building) goBuild(ctx context.Context, made, target string, flags []string) error {
	args := append(append([]string{"build", "-buildmode=c-shared"}, flags...), "-o", made, target)
	build := exec.CommandContext(ctx, "go", args...)
	build.Stdout, build.Stderr = b.err, b.err
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	err := build.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w; install Go, or add the directory that has it to PATH", err)
	}
	if err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// exportsOf returns the functions that a library shows to programs.
func exportsOf(file string) (names []string, err error) {
	library, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer library.Close()
	symbols, err := library.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	for _, symbol := range symbols {
		isFunction := elf.ST_TYPE(symbol.Info) == elf.STT_FUNC && symbol.Section != elf.SHN_UNDEF
		if isFunction && !strings.HasPrefix(symbol.Name, "_") && !strings.HasPrefix(symbol.Name, "crosscall") {
			names = append(names, symbol.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (b *building) tell(exports []string) error {
	absolute, err := filepath.Abs(b.output)
	if err != nil {
		return err
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return err
	}
	if b.json {
		return json.NewEncoder(b.out).Encode(map[string]any{
			"file": absolute, "bytes": info.Size(), "address": "embed:" + absolute, "exports": exports,
		})
	}
	_, err = fmt.Fprintf(b.out, "%s, %.1f MiB\nopen it as embed:%s\n", b.output, float64(info.Size())/(1<<20), absolute)
	return err
}
