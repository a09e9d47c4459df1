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
server, with its types and documentation. It stands on the language's own
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
			if output == "" {
				_, err = p.out.Write(text)
				return err
			}
			if err := os.WriteFile(output, text, 0o644); err != nil {
				return fmt.Errorf("%w; choose another --output", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&packageName, "package", "demo", "what the module is called: the package, class or prefix")
	cmd.Flags().StringVarP(&output, "output", "o", "", "the file to write; standard output without it")
	return cmd
}
