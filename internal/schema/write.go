package schema

import (
	"maps"
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// A writer writes a description in JSON or in MessagePack. Who describes something calls the
// same methods for both, so that they cannot differ, and writes the keys of an object in
// sorted order, so that JSON is canonical. Servers describe all their functions before they
// serve, so nothing is put together beforehand.
type writer struct {
	out    []byte
	binary bool // MessagePack
	// follows is set if, in JSON, a comma is due before the next key or element.
	follows bool
}

func (w *writer) object(members int) {
	if w.binary {
		w.out = msgp.AppendMapHeader(w.out, uint32(members))
	} else {
		w.open('{')
	}
}

func (w *writer) list(elements int) {
	if w.binary {
		w.out = msgp.AppendArrayHeader(w.out, uint32(elements))
	} else {
		w.open('[')
	}
}

func (w *writer) open(bracket byte) {
	w.separate()
	w.out, w.follows = append(w.out, bracket), false
}

// end ends an object or a list with its bracket.
func (w *writer) end(bracket byte) {
	if !w.binary {
		w.out, w.follows = append(w.out, bracket), true
	}
}

func (w *writer) separate() {
	if w.follows {
		w.out = append(w.out, ',')
	}
}

func (w *writer) text(text string) {
	if w.binary {
		w.out = msgp.AppendString(w.out, text)
		return
	}
	w.separate()
	w.out, w.follows = AppendJSONText(w.out, text), true
}

func (w *writer) key(name string) {
	w.text(name)
	if !w.binary {
		w.out, w.follows = append(w.out, ':'), false
	}
}

// textUnlessEmpty writes a member, unless it is empty.
func (w *writer) textUnlessEmpty(name, text string) {
	if text != "" {
		w.key(name)
		w.text(text)
	}
}

// trueIf writes a member that is true, or none.
func (w *writer) trueIf(name string, set bool) {
	switch {
	case !set:
	case w.binary:
		w.key(name)
		w.out = msgp.AppendBool(w.out, true)
	default:
		w.key(name)
		w.out, w.follows = append(w.out, "true"...), true
	}
}

// parts says which members of a description are written, if there is something to write.
type parts struct{ doc, hash, types bool }

// of returns the function with only these parts.
func (p parts) of(f *Function) Function {
	only := *f
	if !p.doc {
		only.Doc = ""
	}
	if !p.hash {
		only.Hash = ""
	}
	if !p.types {
		only.Types = nil
	}
	return only
}

// function writes a description, without what is empty or false.
func (w *writer) function(of *Function, p parts) {
	f := p.of(of)
	members := 3
	for _, there := range []bool{f.Doc != "", f.Hash != "", f.Idempotent, f.Raw, len(f.Types) > 0, f.Variadic} {
		if there {
			members++
		}
	}
	w.object(members)
	w.textUnlessEmpty("doc", f.Doc)
	w.textUnlessEmpty("hash", f.Hash)
	w.trueIf("idempotent", f.Idempotent)
	w.key("name")
	w.text(f.Name)
	w.key("params")
	w.list(len(f.Params))
	for i := range f.Params {
		w.named(f.Params[i].Name, &f.Params[i].Type)
	}
	w.end(']')
	w.trueIf("raw", f.Raw)
	w.key("results")
	w.list(len(f.Results))
	for i := range f.Results {
		w.typed(&f.Results[i])
	}
	w.end(']')
	if len(f.Types) > 0 {
		w.key("types")
		w.types(f.Types)
	}
	w.trueIf("variadic", f.Variadic)
	w.end('}')
}

func (w *writer) types(types Types) {
	w.object(len(types))
	for _, name := range slices.Sorted(maps.Keys(types)) {
		fields := types[name].Fields
		w.key(name)
		w.object(1)
		w.key("fields")
		w.list(len(fields))
		for i := range fields {
			w.named(fields[i].Name, &fields[i].Type)
		}
		w.end(']')
		w.end('}')
	}
	w.end('}')
}

// named writes a parameter or a field.
func (w *writer) named(name string, t *Type) {
	w.object(2)
	w.key("name")
	w.text(name)
	w.key("type")
	w.typed(t)
	w.end('}')
}

func (w *writer) typed(t *Type) {
	switch t.Kind {
	case List, Optional:
		w.object(1)
		w.key(t.Kind.String())
		w.typed(t.Element)
	case Map:
		w.object(1)
		w.key("map")
		w.list(2)
		w.text(t.Key.String())
		w.typed(t.Element)
		w.end(']')
	case StructRef:
		w.object(1)
		w.key("struct")
		w.text(t.Struct)
	default:
		w.text(t.Kind.String())
		return
	}
	w.end('}')
}
