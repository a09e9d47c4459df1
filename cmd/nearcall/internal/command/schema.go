package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/internal/schema"
)

func (p *program) schemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Save and compare the descriptions of servers",
	}
	cmd.AddCommand(p.schemaExportCommand(), p.schemaDiffCommand())
	return cmd
}

func (p *program) schemaExportCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "export ADDRESS",
		Short:             "Print the schema of a server, for a file",
		Example:           `  nearcall schema export unix:/tmp/demo.sock > schema.json`,
		Args:              arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: p.completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			document, err := p.document(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.out, "%s\n", document.JSON())
			return err
		},
	}
}

func (p *program) schemaDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what changed, and fail when callers would break",
		Long: `Shows what changed from the schema OLD to NEW, which are addresses or files.
Exits with 1 when a change breaks callers that were written for OLD: a function
or field that is gone, a type that has changed, or a new parameter that is not
optional.`,
		Example: `  nearcall schema diff schema.json unix:/tmp/demo.sock`,
		Args:    arguments(cobra.ExactArgs(2)),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return p.completeSource(cmd, args[len(args)/2*2:], toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := p.document(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			after, err := p.document(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			return p.printChanges(schema.Diff(before, after))
		},
	}
}

func (p *program) printChanges(changes []schema.Change) error {
	s := styleFor(p.out)
	var failure error
	for _, change := range changes {
		kind := "compatible   "
		if !change.Compatible {
			kind, failure = s.red("INCOMPATIBLE "), errIncompatible
		}
		fmt.Fprintf(p.out, "%s %s\n", kind, change.Text)
	}
	return failure
}
