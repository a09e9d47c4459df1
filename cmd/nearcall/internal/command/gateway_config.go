package command

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	gateway "github.com/nearcall/nearcall/gateway/nats"
	"github.com/nearcall/nearcall/server"
)

// A gatewayFile is the configuration of a gateway as a file has it. The examples are for errors.
type gatewayFile struct {
	Name           string          `toml:"name" example:"\"west-1\""`
	Host           string          `toml:"host" example:"\"a.example\""`
	Zone           string          `toml:"zone" example:"\"west\""`
	Prefix         string          `toml:"prefix" example:"\"nearcall\""`
	Listen         string          `toml:"listen" example:"\"unix:/run/nearcall/gateway.sock\""`
	SocketMode     string          `toml:"socket_mode" example:"\"0660\""`
	SocketGroup    string          `toml:"socket_group" example:"\"www-data\""`
	Large          string          `toml:"large" example:"\"pieces\""`
	Direct         string          `toml:"direct" example:"\"off\""`
	Workers        int             `toml:"workers" example:"256"`
	DrainTimeoutMs int64           `toml:"drain_timeout_ms" example:"30000"`
	Export         []gatewayExport `toml:"export"`
	Engine         gatewayEngine   `toml:"engine"`
	DirectTLS      gatewayTLS      `toml:"direct_tls"`
}

type gatewayExport struct {
	Name      string   `toml:"name" example:"\"shop\""`
	Address   string   `toml:"address" example:"\"unix:/run/shop.sock\""`
	Functions []string `toml:"functions" example:"[\"stock*\", \"order\"]"`
	Direct    string   `toml:"direct" example:"\"tls:a.example:7000\""`
	Version   string   `toml:"version" example:"\"1.4.0\""`
}

type gatewayEngine struct {
	URLs          []string `toml:"urls" example:"[\"nats://nats.example:4222\"]"`
	Credentials   string   `toml:"credentials" example:"\"/etc/nearcall/shop.creds\""`
	Nkey          string   `toml:"nkey" example:"\"/etc/nearcall/shop.nk\""`
	Listen        string   `toml:"listen" example:"\"127.0.0.1:4222\""`
	ClusterListen string   `toml:"cluster_listen" example:"\"10.0.0.1:6222\""`
	ClusterName   string   `toml:"cluster_name" example:"\"nearcall\""`
	Routes        []string `toml:"routes" example:"[\"nats://b.example:6222\"]"`
	LeafListen    string   `toml:"leaf_listen" example:"\"10.0.0.1:7422\""`
	Leafs         []string `toml:"leafs" example:"[\"nats-leaf://b.example:7422\"]"`
	Plain         bool     `toml:"plain" example:"true"`
	gatewayTLS
}

type gatewayTLS struct {
	Authorities string `toml:"ca" example:"\"/etc/nearcall/ca.pem\""`
	Certificate string `toml:"cert" example:"\"/etc/nearcall/cert.pem\""`
	Key         string `toml:"key" example:"\"/etc/nearcall/key.pem\""`
}

// readGatewayFile reads a configuration. What it means is checked by gateway.New.
func readGatewayFile(path string) (gateway.Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return gateway.Config{}, err
	}
	var f gatewayFile
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&f); err != nil {
		return gateway.Config{}, misread(path, err)
	}
	c, err := f.config()
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (f *gatewayFile) config() (gateway.Config, error) {
	e := &f.Engine
	c := gateway.Config{
		Name: f.Name, Host: f.Host, Zone: f.Zone, Prefix: f.Prefix, Listen: f.Listen, Workers: f.Workers,
		DrainTimeout: time.Duration(f.DrainTimeoutMs) * time.Millisecond, DirectTLS: gateway.TLS(f.DirectTLS),
		Engine: gateway.Engine{
			URLs: e.URLs, Credentials: e.Credentials, Nkey: e.Nkey, TLS: gateway.TLS(e.gatewayTLS),
			Embedded: gateway.Embedded{
				Listen: e.Listen, ClusterListen: e.ClusterListen, ClusterName: e.ClusterName, Routes: e.Routes,
				LeafListen: e.LeafListen, Leafs: e.Leafs, Plain: e.Plain, TLS: gateway.TLS(e.gatewayTLS),
			},
		},
	}
	for _, export := range f.Export {
		c.Exports = append(c.Exports, gateway.Export(export))
	}
	for _, one := range []struct {
		name, given string
		apply       func(c *gateway.Config, given string) error
	}{{"large", f.Large, chooseFrom(largeChoices)}, {"direct", f.Direct, chooseFrom(directChoices)},
		{"socket_mode", f.SocketMode, setSocketMode}, {"socket_group", f.SocketGroup, setSocketGroup}} {
		if one.given == "" {
			continue
		}
		if err := one.apply(&c, one.given); err != nil {
			return c, fmt.Errorf("%s is %q: %w", one.name, one.given, err)
		}
	}
	return c, nil
}

// setSocketMode sets the permissions of the socket, in octal digits.
func setSocketMode(c *gateway.Config, text string) error {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode == 0 || mode > 0o777 {
		return errors.New("write octal digits, such as 0660")
	}
	c.Server = append(c.Server, server.WithSocketMode(fs.FileMode(mode)))
	return nil
}

// setSocketGroup sets the group that owns the socket, by its name or number.
func setSocketGroup(c *gateway.Config, text string) error {
	found, err := user.LookupGroup(text)
	if err != nil {
		found, err = user.LookupGroupId(text)
	}
	if err != nil {
		return errors.New("there is no group of that name or number")
	}
	number, err := strconv.Atoi(found.Gid)
	c.Server = append(c.Server, server.WithSocketGroup(number))
	return err
}

// What "large" and "direct" can be.
var (
	largeChoices = map[string]func(*gateway.Config){
		"pieces": func(c *gateway.Config) { c.Large = gateway.Pieces },
		"refuse": func(c *gateway.Config) { c.Large = gateway.Refuse },
	}
	directChoices = map[string]func(*gateway.Config){
		"off":      func(c *gateway.Config) { c.Direct = gateway.DirectOff },
		"gateways": func(c *gateway.Config) { c.Direct = gateway.DirectGateways },
		"callers":  func(c *gateway.Config) { c.Direct = gateway.DirectCallers },
	}
)

// chooseFrom returns what applies one of some choices.
func chooseFrom(choices map[string]func(*gateway.Config)) func(c *gateway.Config, given string) error {
	return func(c *gateway.Config, given string) error {
		choice, known := choices[given]
		if !known {
			return fmt.Errorf("write %s", strings.Join(sortedKeys(choices), ", "))
		}
		choice(c)
		return nil
	}
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// misread says what is wrong with a file, line by line. What the TOML library says is for those who
// write programs.
func misread(path string, err error) error {
	var unknown *toml.StrictMissingError
	var malformed *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		var all []error
		for _, one := range unknown.Errors {
			line, _ := one.Position()
			all = append(all, fmt.Errorf("%s:%d: %s", path, line, unknownGatewayKey(one.Key())))
		}
		return errors.Join(all...)
	case errors.As(err, &malformed):
		line, _ := malformed.Position()
		return fmt.Errorf("%s:%d: %s", path, line, misfit(malformed))
	}
	return fmt.Errorf("%s: %w", path, err)
}

func unknownGatewayKey(key toml.Key) string {
	table := tableOfGateway(key[:len(key)-1])
	if table == nil {
		table, key = reflect.TypeFor[gatewayFile](), key[:1]
	}
	return fmt.Sprintf("%q is not known here: there are %s", strings.Join(key, "."), strings.Join(gatewayKeys(table), ", "))
}

// misfit says how a value should look. The library tells no key when the text is no TOML.
func misfit(malformed *toml.DecodeError) string {
	key := malformed.Key()
	if len(key) > 0 {
		if table := tableOfGateway(key[:len(key)-1]); table != nil {
			for _, field := range reflect.VisibleFields(table) {
				if example := field.Tag.Get("example"); field.Tag.Get("toml") == key[len(key)-1] && example != "" {
					return fmt.Sprintf("%s has a value of another form: write one such as %s = %s", key[len(key)-1], key[len(key)-1], example)
				}
			}
		}
	}
	return "this is no TOML (" + strings.TrimPrefix(malformed.Error(), "toml: ") + "): write NAME = VALUE, and texts in quotes"
}

// tableOfGateway returns the type of a table, or nil if there is none of that name.
func tableOfGateway(key toml.Key) reflect.Type {
	table := reflect.TypeFor[gatewayFile]()
	for _, name := range key {
		i := slices.IndexFunc(reflect.VisibleFields(table), func(f reflect.StructField) bool { return f.Tag.Get("toml") == name })
		if i < 0 {
			return nil
		}
		table = reflect.VisibleFields(table)[i].Type
		if table.Kind() == reflect.Slice {
			table = table.Elem()
		}
		if table.Kind() != reflect.Struct {
			return nil
		}
	}
	return table
}

// gatewayKeys returns the names that a table has.
func gatewayKeys(table reflect.Type) (names []string) {
	for _, field := range reflect.VisibleFields(table) {
		if name := field.Tag.Get("toml"); name != "" {
			names = append(names, name)
		}
	}
	return names
}
