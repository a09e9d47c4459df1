package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (c *checker) routes(all []fileRoute, backends map[string]fileBackend) []Route {
	if len(all) == 0 {
		c.fail("", `there is no [[route]]: write one with host = "*" and a backend`)
	}
	var routes []Route
	seen := map[Route]bool{}
	used := map[string]bool{}
	for i, r := range all {
		at := fmt.Sprintf("route[%d]", i)
		route := c.route(at, r)
		key := Route{Host: route.Host, Path: route.Path, ServerName: route.ServerName}
		if seen[key] {
			c.fail(at, "another [[route]] is for the same connections: remove one of them")
		}
		seen[key], used[r.Backend] = true, true
		if _, found := backends[r.Backend]; !found {
			c.fail(at+".backend", "%s", noBackend(r.Backend, backends))
		}
		routes = append(routes, route)
	}
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		if !used[name] && len(all) > 0 {
			c.fail("backend."+name, "no [[route]] leads to backend %q: write one, or remove it", name)
		}
	}
	return routes
}

func noBackend(name string, backends map[string]fileBackend) string {
	if name == "" {
		return "the route says no backend: write backend = \"NAME\""
	}
	names := slices.Sorted(maps.Keys(backends))
	return fmt.Sprintf("there is no [backend.%s]: write one, or the name of another (%s)", name, strings.Join(names, ", "))
}

func (c *checker) route(at string, r fileRoute) Route {
	route := Route{
		Name: r.Name, Backend: r.Backend, Path: r.Path,
		Host:       c.pattern(at+".host", r.Host),
		ServerName: c.pattern(at+".server_name", r.ServerName),
	}
	switch {
	case r.Host != "" && r.ServerName != "":
		c.fail(at, "host is of requests that can be read, server_name of TLS: write two routes")
	case r.ServerName != "" && r.Path != "":
		c.fail(at+".path", "the path of a TLS connection cannot be seen: remove it, or route it in the program that has the certificate")
	case r.Host == "" && r.ServerName == "" && r.Path == "":
		c.fail(at, `the route says neither host, path nor server_name: host = "*" is every request, server_name = "*" every TLS connection`)
	case r.Path != "" && r.Path[0] != '/':
		c.fail(at+".path", "path is %q: write it with a / in front", r.Path)
	}
	if route.Host == "" && route.ServerName == "" {
		route.Host = "*"
	}
	if route.Name == "" {
		route.Name = route.Host + route.Path + route.ServerName
	}
	return route
}

// pattern checks a host or a server name: exact, "*.domain" or "*".
func (c *checker) pattern(key, text string) string {
	name := strings.TrimPrefix(text, "*.")
	switch {
	case text == "" || text == "*":
		return text
	case strings.Contains(name, "*"):
		c.fail(key, "%q: a * stands for whole labels at the beginning; write *.%s", text, strings.ReplaceAll(strings.TrimLeft(name, "*."), "*", "x"))
	case strings.Contains(name, ":") && !strings.HasPrefix(name, "["), strings.ContainsAny(name, "/ \t"):
		c.fail(key, "%q: write the bare name, without scheme, port and path", text)
	case name == "" || strings.HasPrefix(name, ".") || strings.Contains(name, ".."):
		c.fail(key, "%q has an empty label: write a name such as www.example.com or *.example.com", text)
	}
	return strings.TrimSuffix(strings.ToLower(text), ".")
}
