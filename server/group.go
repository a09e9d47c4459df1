package server

import "slices"

// A Group registers functions that share the beginning of their names, options and
// interceptors.
//
//	admin := s.Group("admin.", server.Intercept(mustBeRoot), server.MaxConcurrency(1))
//	admin.Register("reload", reload) // is called as admin.reload
//
// It may be used by any number of goroutines, until the server serves.
type Group struct {
	server  *Server
	prefix  string
	options []FunctionOption
}

// Group returns a group with a prefix, which usually ends in a dot. The options apply to each
// function in the group. A function's own options come after them, so they prevail, and its
// own interceptors run inside those of the group.
func (s *Server) Group(prefix string, options ...FunctionOption) *Group {
	return &Group{server: s, prefix: prefix, options: slices.Clone(options)}
}

// Group returns a group within this one. Its prefix follows the prefix of this group, and
// its options come after those of this group.
func (g *Group) Group(prefix string, options ...FunctionOption) *Group {
	return &Group{server: g.server, prefix: g.prefix + prefix, options: slices.Concat(g.options, options)}
}

// Register is Server.Register with the group's prefix and options.
func (g *Group) Register(name string, fn any, options ...FunctionOption) error {
	return g.server.Register(g.prefix+name, fn, slices.Concat(g.options, options)...)
}

// RegisterService is Server.RegisterService with the group's prefix and options.
func (g *Group) RegisterService(prefix string, service any, options ...FunctionOption) error {
	return g.server.RegisterService(g.prefix+prefix, service, slices.Concat(g.options, options)...)
}
