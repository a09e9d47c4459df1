package gateway

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Reload makes a gateway that runs do what another Config says. Exports that are the same go on, those
// that are gone or different are withdrawn, and new ones begin. Connections and calls that are under way
// go on in any case, for up to 10 minutes. Zone, Large and Direct apply from then on. Nothing else can
// be changed: the error names what differs, and nothing has changed then. Server, Logger and Observer
// are not looked at. Files with certificates of URLs and of DirectTLS need no Reload, because they are
// read whenever a connection is made. The gateway's own engine reads its files when it starts, so after
// their renewal the gateway has to be started anew.
func (g *Gateway) Reload(config Config) error {
	if err := config.complete(); err != nil {
		return err
	}
	if err := g.config.onlyDiffersWhereItMay(&config); err != nil {
		return err
	}
	g.reloading.Lock()
	defer g.reloading.Unlock()
	if !g.ready.Load() || g.draining.Load() {
		return errors.New("gateway: only a gateway that runs can be changed")
	}
	added, err := g.makeExports(g.missing(config.Exports))
	if err != nil {
		return err
	}
	g.set.Store(&labels{config.Zone, config.Large, config.Direct})
	for _, e := range g.takeOut(config.Exports) {
		e.withdraw()
	}
	g.begin(added)
	g.changed()
	return nil
}

// onlyDiffersWhereItMay says what is different of the things that a gateway which runs cannot change.
func (c *Config) onlyDiffersWhereItMay(other *Config) error {
	for _, part := range []struct {
		name        string
		was, wanted any
	}{
		{"Name", c.Name, other.Name}, {"Host", c.Host, other.Host}, {"Prefix", c.Prefix, other.Prefix}, {"Listen", c.Listen, other.Listen},
		{"Engine", c.Engine, other.Engine}, {"DirectTLS", c.DirectTLS, other.DirectTLS}, {"Workers", c.Workers, other.Workers},
		{"DrainTimeout", c.DrainTimeout, other.DrainTimeout},
	} {
		if !reflect.DeepEqual(part.was, part.wanted) {
			return fmt.Errorf("gateway: %s cannot be changed while the gateway runs: start it anew", part.name)
		}
	}
	return nil
}

// missing returns the exports that the gateway does not have as they are.
func (g *Gateway) missing(wanted []Export) (missing []Export) {
	have := g.exported()
	for _, export := range wanted {
		if !slices.ContainsFunc(have, func(e *exported) bool { return reflect.DeepEqual(e.config, export) }) {
			missing = append(missing, export)
		}
	}
	return missing
}

// takeOut takes the exports out that are not wanted, and returns them. Calls may still be under way, so
// their clients are closed with the gateway.
func (g *Gateway) takeOut(wanted []Export) (out []*exported) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.exports = slices.DeleteFunc(g.exports, func(e *exported) bool {
		if slices.ContainsFunc(wanted, func(export Export) bool { return reflect.DeepEqual(e.config, export) }) {
			return false
		}
		out = append(out, e)
		return true
	})
	g.former = append(g.former, out...)
	return out
}
