package command

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func (p *program) statsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stats ADDRESS",
		Short: "Show the counters of a server",
		Example: `  nearcall stats unix:/tmp/demo.sock
  nearcall stats --json unix:/tmp/demo.sock | jq .`,
		Args:              arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: p.completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.jsonError = asJSON
			c, err := p.client(args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			text, err := c.Stats(cmd.Context())
			if err != nil {
				return err
			}
			if !asJSON {
				var indented bytes.Buffer
				if err := json.Indent(&indented, []byte(text), "", "  "); err != nil {
					return fmt.Errorf("the server's counters are no JSON: %w", err)
				}
				text = indented.String()
			}
			_, err = fmt.Fprintln(p.out, text)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them on one line, as the server sends them")
	return cmd
}
