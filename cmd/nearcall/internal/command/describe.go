package command

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/internal/schema"
)

func (p *program) describeCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "describe SOURCE [FUNCTION]",
		Short:             "Show everything that is known about a function, or about all functions",
		Example:           `  nearcall describe unix:/tmp/demo.sock greet`,
		Args:              arguments(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: p.completeFunction,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.jsonError = asJSON
			if len(args) == 1 {
				document, err := p.document(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return p.describe(asJSON, document.Functions)
			}
			f, err := p.function(cmd.Context(), args[0], args[1])
			switch {
			case err != nil:
				return err
			case asJSON:
				return p.printIndented(json.RawMessage(f.JSON()))
			}
			return p.describe(false, []*schema.Function{f})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the description as JSON")
	return cmd
}

func (p *program) describe(asJSON bool, functions []*schema.Function) error {
	if asJSON {
		return p.printDescriptions(functions)
	}
	s := styleFor(p.out)
	for i, f := range functions {
		if i > 0 {
			fmt.Fprintln(p.out)
		}
		fmt.Fprint(p.out, s.description(f))
	}
	return nil
}
