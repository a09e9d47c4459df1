package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/client"
	gateway "github.com/nearcall/nearcall/gateway/nats"
)

func (p *program) gatewayStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status ADDRESS",
		Short: "Show what a gateway exports, whom it knows, and where calls go",
		Long: `Asks the gateway that listens at ADDRESS for what it knows: its connection to NATS, the
servers of this machine that it exports, the other gateways, and for each function the
servers at which it can be called, the nearest first. It shows how many calls went there, and
after how many the call went elsewhere.`,
		Example: `  nearcall gateway status unix:/run/nearcall/gateway.sock
  nearcall gateway status --json unix:/run/nearcall/gateway.sock | jq .members`,
		Args:              arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: p.completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.jsonError = asJSON
			c, err := p.client(args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			text, err := client.Call[string](cmd.Context(), c, gateway.StatusFunction)
			if err != nil {
				return err
			}
			if asJSON {
				_, err = fmt.Fprintln(p.out, text)
				return err
			}
			var status gateway.Status
			if err := json.Unmarshal([]byte(text), &status); err != nil {
				return fmt.Errorf("the gateway's status cannot be read: %w; is it of another version? --json shows it as it is", err)
			}
			return p.printGateway(&status)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it on one line, as the gateway sends it")
	return cmd
}

func (p *program) printGateway(s *gateway.Status) error {
	style := styleFor(p.out)
	fmt.Fprintf(p.out, "%s on host %s%s, up %s\n", style.bold(s.Gateway), s.Host, zone(s.Zone), milliseconds(s.UptimeMs))
	fmt.Fprintf(p.out, "%s, %s for calls over it\n", engineText(&s.Engine), counted(s.Streams, "connection"))
	if s.Engine.Trouble != "" {
		fmt.Fprintf(p.out, "trouble with other NATS servers: %s\n", s.Engine.Trouble)
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	printExports(table, s.Exports)
	printMembers(table, s.Members)
	printFunctions(table, s.Functions)
	return table.Flush()
}

func engineText(e *gateway.EngineStatus) string {
	whose := "NATS"
	if e.Embedded {
		whose = "its own NATS server"
	}
	if !e.Connected {
		return fmt.Sprintf("not connected to %s: %s", whose, e.Error)
	}
	if e.URL != "" {
		whose += " at " + e.URL
	}
	text := fmt.Sprintf("connected to %s, %s", whose, counted(int(e.ReconnectsTotal), "reconnection"))
	if e.Error != "" {
		text += ", in vain: " + e.Error
	}
	return text
}

func printExports(table *tabwriter.Writer, exports []gateway.ExportStatus) {
	if len(exports) > 0 {
		fmt.Fprintf(table, "\nexports\n")
	}
	for _, e := range exports {
		why := ""
		if e.Error != "" {
			why = ": " + e.Error
		}
		fmt.Fprintf(table, "  %s\t%s\t%s%s\t%s\t%s now, %d in all\n", e.Name, e.Address, e.State, why, counted(e.Functions, "function"), counted(e.Streams, "connection"), e.StreamsTotal)
	}
}

func printMembers(table *tabwriter.Writer, members []gateway.MemberStatus) {
	if len(members) > 0 {
		fmt.Fprintf(table, "\nother gateways\n")
	}
	for _, m := range members {
		servers := make([]string, len(m.Servers))
		for i, s := range m.Servers {
			servers[i] = s.Name + " (" + s.State + ")"
		}
		fmt.Fprintf(table, "  %s\thost %s%s\t%s\t%s\theard %s ago\n", m.Gateway, m.Host, zone(m.Zone), m.State, strings.Join(servers, ", "), milliseconds(m.HeardMs))
	}
}

func printFunctions(table *tabwriter.Writer, functions []gateway.FunctionStatus) {
	if len(functions) > 0 {
		fmt.Fprintf(table, "\nfunctions\n")
	}
	for _, f := range functions {
		name := f.Name
		for _, place := range f.Places {
			fmt.Fprintf(table, "  %s\t%s at %s\t%s\t%s%s\t%s, %d failed\n", name, place.Server, place.Gateway, place.Distance, place.State, directly(place.Direct), counted(int(place.CallsTotal), "call"), place.FailuresTotal)
			name = ""
		}
		if len(f.Places) == 0 {
			fmt.Fprintf(table, "  %s\tnowhere\n", name)
		}
	}
}

func directly(address string) string {
	if address == "" {
		return ""
	}
	return ", directly at " + address
}

func zone(label string) string {
	if label == "" {
		return ""
	}
	return " in zone " + label
}

// counted is "1 call", or "2 calls".
func counted(count int, what string) string {
	if count == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", count, what)
}

// milliseconds shows a time as a person reads it.
func milliseconds(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
