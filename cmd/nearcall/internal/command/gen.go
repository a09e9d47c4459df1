package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/generate"
)

func (p *program) genCommand() *cobra.Command {
	var packageName, output string
	languages := strings.Join(generate.Languages(), "|")
	cmd := &cobra.Command{
		Use:   "gen " + languages + " SOURCE",
		Short: "Generate typed stubs for a language",
		Long: `Generates a module for a language that has a function for each function of the
server, with its types and documentation. The module uses the language's own
package: Nearcall.pm, nearcall for Python, nearcall.h, or the Go package client.`,
		Example: `  nearcall gen python --package shop unix:/run/shop.sock --output shop.py
  nearcall gen c schema.json > shop.h`,
		Args: arguments(cobra.ExactArgs(2)),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return generate.Languages(), cobra.ShellCompDirectiveNoFileComp
			}
			return p.completeSource(cmd, args[1:], toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			document, err := p.document(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			text, err := generate.Generate(args[0], document, packageName)
			if err != nil {
				return usageError{err}
			}
			return p.write(output, text)
		},
	}
	cmd.Flags().StringVar(&packageName, "package", "demo", "what the module is called: the package, class or prefix")
	cmd.Flags().StringVarP(&output, "output", "o", "", "the file to write; standard output without it")
	cmd.AddCommand(p.genServiceCommand())
	return cmd
}

func (p *program) genServiceCommand() *cobra.Command {
	var directory, output string
	cmd := &cobra.Command{
		Use:   "service TYPE",
		Short: "Describe the methods of a Go type that is registered as a service",
		Long: `Reads the Go package in a folder and writes a Go file for it that tells
server.RegisterService the parameter names and the documentation of the type's
exported methods, which reflection does not know. It is meant for a go:generate line.`,
		Example: `  //go:generate nearcall gen service Orders --output orders_functions.go`,
		Args:    arguments(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := generate.Service(directory, args[0])
			if err != nil {
				return usageError{err}
			}
			return p.write(output, text)
		},
	}
	cmd.Flags().StringVar(&directory, "directory", ".", "the folder of the package")
	cmd.Flags().StringVarP(&output, "output", "o", "", "the file to write; standard output without it")
	return cmd
}

// write writes what was generated to a file, or to standard output where none is named.
func (p *program) write(output string, text []byte) error {
	if output == "" {
		_, err := p.out.Write(text)
		return err
	}
	if err := os.WriteFile(output, text, 0o644); err != nil {
		return fmt.Errorf("%w; choose another --output", err)
	}
	return nil
}
