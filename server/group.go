package server

import "slices"

// A Group registers functions that have a prefix of their names, options and interceptors in
// common.
//
//	admin := s.Group("admin.", server.Intercept(mustBeRoot), server.MaxConcurrency(1))
//	admin.Register("reload", reload) // is called as admin.reload
//
// It may be used by any number of goroutines, and registers until the server serves.
type Group struct {
	server  *Server
	prefix  string
	options []FunctionOption
}

// Group returns a group with a prefix, which usually ends in a dot. The options are those of
// each function in it; a function's own come after them, so that they prevail, and its
// interceptors run inside the group's.
func (s *Server) Group(prefix string, options ...FunctionOption) *Group {
	return &Group{server: s, prefix: prefix, options: slices.Clone(options)}
}

// Group returns a group within this one: its prefix follows this one's, and its options
// come after this one's.
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
