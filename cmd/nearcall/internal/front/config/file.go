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
	Metrics  fileAddress            `toml:"metrics"`
	Control  fileAddress            `toml:"control"`
}

type fileListen struct {
	Name        string `toml:"name"`
	Address     string `toml:"address"`
	Protocol    string `toml:"protocol"`
	DeferAccept bool   `toml:"defer_accept"`
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

type fileAddress struct {
	Address string `toml:"address"`
}

// Parse reads a configuration from text; path is for errors.
func Parse(path string, text []byte) (*Config, error) {
	var f file
	decoder := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return nil, decodeError(path, err)
	}
	c := &checker{path: path, lines: linesOf(text)}
	config := c.config(&f)
	return config, errors.Join(c.problems...)
}

// decodeError gives the errors of the TOML library their places.
func decodeError(path string, err error) error {
	var unknown *toml.StrictMissingError
	var malformed *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		var all []error
		for _, one := range unknown.Errors {
			line, _ := one.Position()
			all = append(all, unknownKey(path, line, one.Key()))
		}
		return errors.Join(all...)
	case errors.As(err, &malformed):
		line, column := malformed.Position()
		return fmt.Errorf("%s:%d:%d: %s", path, line, column, strings.TrimPrefix(malformed.Error(), "toml: "))
	}
	return fmt.Errorf("%s: %w", path, err)
}

// known are the keys of each table, for whoever misspelt one.
var known = map[string]string{
	"":         "[[listen]], [[route]], [backend.NAME], [timeouts], [limits], [metrics] and [control]",
	"listen":   "name, address, protocol and defer_accept",
	"route":    "name, host, path, server_name and backend",
	"backend":  "sockets, users, wait_ms and otherwise",
	"timeouts": "peek_ms, linger_ms, health_ms, drain_ms and hand_back_ms",
	"limits":   "held_max, held_per_client_max and head_bytes_max",
	"metrics":  "address",
	"control":  "address",
}

func unknownKey(path string, line int, key toml.Key) error {
	table, name := "", strings.Join(key, ".")
	if len(key) > 1 && known[key[0]] != "" {
		table, name = key[0], key[len(key)-1]
	}
	return fmt.Errorf("%s:%d: %q is not known here: %s are", path, line, name, known[table])
}
