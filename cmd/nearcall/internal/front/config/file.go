package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// A file is what the text says, before it is checked. What is nil was left out.
type file struct {
	Listen   []fileListen           `toml:"listen"`
	Route    []fileRoute            `toml:"route"`
	Backend  map[string]fileBackend `toml:"backend"`
	Timeouts fileTimeouts           `toml:"timeouts"`
	Limits   fileLimits             `toml:"limits"`
	Log      fileLog                `toml:"log"`
	Metrics  fileAddress            `toml:"metrics"`
	Control  fileAddress            `toml:"control"`
}

type fileListen struct {
	Name        string `toml:"name"`
	Address     string `toml:"address"`
	Protocol    string `toml:"protocol"`
	DeferAccept bool   `toml:"defer_accept"`

	ProxyProtocol bool `toml:"proxy_protocol"`
}

type fileRoute struct {
	Name       string `toml:"name"`
	Host       string `toml:"host"`
	Path       string `toml:"path"`
	ServerName string `toml:"server_name"`
	Backend    string `toml:"backend"`
}

type fileBackend struct {
	Sockets   []string `toml:"sockets"`
	Weights   []int64  `toml:"weights"`
	Users     []string `toml:"users"`
	WaitMs    *int64   `toml:"wait_ms"`
	Otherwise string   `toml:"otherwise"`
}

type fileTimeouts struct {
	PeekMs     *int64 `toml:"peek_ms"`
	LingerMs   *int64 `toml:"linger_ms"`
	HealthMs   *int64 `toml:"health_ms"`
	DrainMs    *int64 `toml:"drain_ms"`
	HandBackMs *int64 `toml:"hand_back_ms"`
}

type fileLimits struct {
	HeldMax          *int64 `toml:"held_max"`
	HeldPerClientMax *int64 `toml:"held_per_client_max"`
	HeadBytesMax     *int64 `toml:"head_bytes_max"`
}

type fileLog struct {
	Handoffs bool `toml:"handoffs"`
}

type fileAddress struct {
	Address string `toml:"address"`
}

// Parse reads a configuration from text; path is for errors.
func Parse(path string, text []byte) (*Config, error) {
	c := &checker{path: path}
	var f file
	if !c.decode(text, &f) {
		return nil, errors.Join(c.problems...)
	}
	config := c.config(&f)
	return config, errors.Join(c.problems...)
}

// decode reports whether the text could be read. What the TOML library says is for
// who writes programs: it is told anew, with the key and an example.
func (c *checker) decode(text []byte, f *file) bool {
	c.read(text)
	if len(c.problems) > 0 {
		return false
	}
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(f)
	var unknown *toml.StrictMissingError
	var malformed *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		for _, one := range unknown.Errors {
			line, _ := one.Position()
			c.failAt(line, "%s", unknownKey(one.Key()))
		}
	case errors.As(err, &malformed):
		line, _ := malformed.Position()
		key, line := c.lines.at(line)
		c.failAt(line, "%s", sourceOf(text).misfit(line, key))
	case err != nil:
		c.failAt(1, "%s", notUnderstood)
	}
	return err == nil
}

func unknownKey(key toml.Key) string {
	if table := tableOf(key[0]); table != nil && len(key) > 1 {
		return table.unknown(key[len(key)-1])
	}
	return fmt.Sprintf("%q is not known here: %s are", strings.Join(key, "."), headers())
}
