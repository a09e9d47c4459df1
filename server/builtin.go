package server

import (
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/status"
)

// addBuiltins adds the functions that every server has.
func (t *functionTable) addBuiltins(s *Server) error {
	builtins := []struct {
		name   string
		fn     any
		params []string
		doc    string
	}{
		{"schema", func() string { return string(t.document.JSON()) }, nil, "The schema document of this server."},
		{"stats", s.statistics, nil, "Counters of this server as JSON."},
		{"changes", t.changes, []string{"name", "description"},
			"What keeps callers that were written for a description of a function, in JSON, from calling this server's; an empty list when nothing does."},
	}
	for _, b := range builtins {
		f, err := newFunction(reservedPrefix+b.name, b.fn, []FunctionOption{Doc(b.doc), Params(b.params...), Idempotent()})
		if err != nil {
			return err
		}
		t.add(f)
	}
	return nil
}

// changes compares a function with the description that a caller's stub was
// generated from, so that what is compatible is decided here for all languages.
func (t *functionTable) changes(name, description string) ([]string, error) {
	before, err := schema.ParseFunctionJSON([]byte(description))
	if err != nil {
		return nil, status.Errorf(status.InvalidArgument, "%w", err)
	}
	var after *schema.Function
	if f := t.byName[name]; f != nil {
		after = f.Description()
	}
	return schema.Incompatible(before, after), nil
}
