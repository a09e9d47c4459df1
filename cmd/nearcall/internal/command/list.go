package command

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/internal/schema"
)

func (p *program) listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list SOURCE",
		Short: "List the functions of a server",
		Example: `  nearcall list unix:/tmp/demo.sock
  nearcall list --json unix:/tmp/demo.sock | jq -r .[].name`,
		Args:              arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: p.completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.jsonError = asJSON
			document, err := p.document(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return p.printDescriptions(document.Functions)
			}
			p.printList(document.Functions)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the descriptions as a JSON array")
	return cmd
}

// signatureColumns is where the documentation begins beside a signature.
const signatureColumns = 40

func (p *program) printList(functions []*schema.Function) {
	s := styleFor(p.out)
	for _, f := range functions {
		text := signature(f)
		shown := s.bold(f.Name) + text[len(f.Name):]
		if len(text) > signatureColumns {
			fmt.Fprintf(p.out, "%s\n%*s", shown, signatureColumns, "")
		} else {
			fmt.Fprintf(p.out, "%s%*s", shown, signatureColumns-len(text), "")
		}
		fmt.Fprintf(p.out, "  %s\n", s.faint(firstSentence(f.Doc)))
	}
}

// printDescriptions prints descriptions as indented JSON.
func (p *program) printDescriptions(functions []*schema.Function) error {
	all := make([]json.RawMessage, len(functions))
	for i, f := range functions {
		all[i] = f.JSON()
	}
	return p.printIndented(all)
}

func (p *program) printIndented(value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(p.out, "%s\n", text)
	}
	return err
}
