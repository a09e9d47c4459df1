package server

import (
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
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
			"What keeps callers that were written for a description of a function, in JSON, from calling this server's, and which that is."},
		{"ping", func() {}, nil, "Does nothing; for measuring how long calls take."},
	}
	for _, b := range builtins {
		f, err := s.newFunction(reservedPrefix+b.name, b.fn, []FunctionOption{Doc(b.doc), Params(b.params...), Idempotent()})
		if err != nil {
			return err
		}
		if b.name == "changes" {
			f.argumentBytesMax = wire.ChangesBytesMax
		}
		t.add(f)
	}
	return nil
}

// A comparison says how the description that a caller has differs from that of a
// function here. It names the hash of the latter: between two questions another server
// may have taken over, and the caller may know the function as that one describes it.
type comparison struct {
	// Hash is the hash of the function's description, or "" if there is no such
	// function.
	Hash    string   `nearcall:"hash"`
	Changes []string `nearcall:"changes"`
}

// changes compares a function with the description from which a caller's stub was
// generated, so that what is compatible is decided here for all languages.
func (t *functionTable) changes(name, description string) (comparison, error) {
	before, err := schema.ParseFunctionJSON([]byte(description))
	if err != nil {
		return comparison{}, status.Errorf(status.InvalidArgument, "%w", err)
	}
	f := t.byName[name]
	if f == nil {
		return comparison{Changes: schema.Incompatible(before, nil)}, nil
	}
	after := f.Description()
	return comparison{Hash: after.Hash, Changes: schema.Incompatible(before, after)}, nil
}
