package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	gateway "github.com/nearcall/nearcall/gateway/nats"
)

// addFlags adds the options. Each leaves a function that changes a configuration, so that they count
// more than a file which is read again.
func (r *gatewayRun) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.path, "config", "", "read this `FILE`")
	flags.BoolVar(&r.check, "check", false, "check the configuration and do nothing else")
	flags.BoolVar(&r.json, "json", false, "log as JSON")
	r.add(cmd, "export", "let others call the functions of the server `NAME=ADDRESS` on this machine; may be given several times", addExport)
	r.text(cmd, "listen", "serve the functions of others at this `ADDRESS`, as unix:/path", func(c *gateway.Config) *string { return &c.Listen })
	r.add(cmd, "socket-mode", "the permissions of that socket: octal `DIGITS`, 0660 without it", setSocketMode)
	r.add(cmd, "socket-group", "the `GROUP` that owns that socket, by name or number", setSocketGroup)
	r.text(cmd, "name", "a `NAME` of this gateway for logs, instead of that of the host", func(c *gateway.Config) *string { return &c.Name })
	r.text(cmd, "host", "the `NAME` by which gateways recognise others on the same machine, instead of the host's own", func(c *gateway.Config) *string { return &c.Host })
	r.text(cmd, "zone", "a `LABEL` for machines that are near each other", func(c *gateway.Config) *string { return &c.Zone })
	r.text(cmd, "prefix", "a `WORD` that all subjects of this cluster begin with, instead of nearcall", func(c *gateway.Config) *string { return &c.Prefix })
	r.list(cmd, "nats", "use the NATS server at this `URL`; may be given several times", func(c *gateway.Config) *[]string { return &c.Engine.URLs })
	r.text(cmd, "creds", "a `FILE` with a JWT and its key, for --nats", func(c *gateway.Config) *string { return &c.Engine.Credentials })
	r.text(cmd, "nkey", "a `FILE` with the seed of an nkey, for --nats", func(c *gateway.Config) *string { return &c.Engine.Nkey })
	r.engineFlags(cmd)
	r.tlsFlags(cmd)
	r.choice(cmd, "large", largeChoices, "send calls that are larger than a message of NATS in pieces, or refuse them: the `WORD` pieces (the default) or refuse")
	r.choice(cmd, "direct", directChoices, "who calls servers at their tls: addresses, if they have one: the `WORD` off (the default), gateways or callers")
	r.add(cmd, "workers", "work on at most this `NUMBER` of calls of plain NATS clients at a time, for each exported server", func(c *gateway.Config, text string) (err error) {
		c.Workers, err = strconv.Atoi(text)
		return err
	})
	r.add(cmd, "drain-timeout", "wait for calls that are under way at the end for at most this `TIME`, as 30s", func(c *gateway.Config, text string) (err error) {
		c.DrainTimeout, err = time.ParseDuration(text)
		return err
	})
}

// engineFlags are those of the NATS server that runs in the gateway.
func (r *gatewayRun) engineFlags(cmd *cobra.Command) {
	r.text(cmd, "engine-listen", "let programs reach the gateway's own NATS server at `HOST:PORT`, or nowhere: off, which a cluster does not allow", func(c *gateway.Config) *string { return &c.Engine.Embedded.Listen })
	r.text(cmd, "cluster-listen", "let other NATS servers of the cluster reach it at `HOST:PORT`", func(c *gateway.Config) *string { return &c.Engine.Embedded.ClusterListen })
	r.text(cmd, "cluster-name", "the `NAME` of the cluster, instead of nearcall", func(c *gateway.Config) *string { return &c.Engine.Embedded.ClusterName })
	r.list(cmd, "route", "connect to the NATS server of the cluster at this `URL`, as nats://b.example:6222; may be given several times", func(c *gateway.Config) *[]string { return &c.Engine.Embedded.Routes })
	r.text(cmd, "leaf-listen", "let leaf nodes reach it at `HOST:PORT`", func(c *gateway.Config) *string { return &c.Engine.Embedded.LeafListen })
	r.list(cmd, "leaf", "become a leaf node of the NATS server at this `URL`, as nats-leaf://b.example:7422; may be given several times", func(c *gateway.Config) *[]string { return &c.Engine.Embedded.Leafs })
	cmd.Flags().BoolFunc("plain", "permit ports that other machines can reach without a certificate", func(text string) error {
		plain, err := strconv.ParseBool(text)
		r.options = append(r.options, func(c *gateway.Config) error {
			c.Engine.Embedded.Plain = plain
			return nil
		})
		return err
	})
}

// tlsFlags name files. A gateway has either a NATS server of its own or uses others, so one set of
// options is enough for both.
func (r *gatewayRun) tlsFlags(cmd *cobra.Command) {
	file := func(name, usage string, of func(*gateway.TLS) *string) {
		r.add(cmd, name, usage, func(c *gateway.Config, text string) error {
			*of(&c.Engine.TLS), *of(&c.Engine.Embedded.TLS) = text, text
			return nil
		})
	}
	file("nats-ca", "trust only the authorities in this PEM `FILE` for connections of NATS", func(t *gateway.TLS) *string { return &t.Authorities })
	file("nats-cert", "show the certificate in this PEM `FILE` there", func(t *gateway.TLS) *string { return &t.Certificate })
	file("nats-key", "the key of --nats-cert, in a PEM `FILE`", func(t *gateway.TLS) *string { return &t.Key })
	r.options = append(r.options, func(c *gateway.Config) error {
		for _, file := range []struct {
			given string
			of    *string
		}{{r.tls.Authorities, &c.DirectTLS.Authorities}, {r.tls.Certificate, &c.DirectTLS.Certificate}, {r.tls.Key, &c.DirectTLS.Key}} {
			if file.given != "" {
				*file.of = file.given
			}
		}
		return nil
	})
}

// add adds an option that changes a configuration.
func (r *gatewayRun) add(cmd *cobra.Command, name, usage string, apply func(c *gateway.Config, text string) error) {
	cmd.Flags().Func(name, usage, func(text string) error {
		r.options = append(r.options, func(c *gateway.Config) error {
			if err := apply(c, text); err != nil {
				return fmt.Errorf("--%s %s: %w", name, text, err)
			}
			return nil
		})
		return nil
	})
}

func (r *gatewayRun) text(cmd *cobra.Command, name, usage string, of func(*gateway.Config) *string) {
	r.add(cmd, name, usage, func(c *gateway.Config, text string) error {
		*of(c) = text
		return nil
	})
}

func (r *gatewayRun) list(cmd *cobra.Command, name, usage string, of func(*gateway.Config) *[]string) {
	r.add(cmd, name, usage, func(c *gateway.Config, text string) error {
		*of(c) = append(*of(c), strings.Split(text, ",")...)
		return nil
	})
}

func (r *gatewayRun) choice(cmd *cobra.Command, name string, choices map[string]func(*gateway.Config), usage string) {
	r.add(cmd, name, usage, chooseFrom(choices))
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(sortedKeys(choices), cobra.ShellCompDirectiveNoFileComp))
}

// addExport understands NAME=ADDRESS.
func addExport(c *gateway.Config, text string) error {
	name, address, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("write --export NAME=unix:/path")
	}
	c.Exports = append(c.Exports, gateway.Export{Name: name, Address: address})
	return nil
}
