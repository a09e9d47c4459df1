package schema

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/nearcall/nearcall/internal/wire"
)

// version is the value of the member "nearcall" of the document.
const version = "1"

// A Document describes all functions of a server, in the order of their ids. It does
// not change once it is made.
type Document struct {
	Functions []*Function
	hash      [sha256.Size]byte
	json      []byte
}

// NewDocument makes the document of a server from its functions, in the order of their
// ids. Functions that use the same struct name must mean the same struct.
func NewDocument(functions []*Function) (*Document, error) {
	types, names := Types{}, make(map[string]struct{}, len(functions))
	for _, f := range functions {
		if _, taken := names[f.Name]; taken {
			return nil, fmt.Errorf("two functions are called %s", f.Name)
		}
		names[f.Name] = struct{}{}
		if err := types.merge(f); err != nil {
			return nil, err
		}
	}
	if len(functions) > wire.FunctionsMax {
		return nil, fmt.Errorf("%d functions are more than the limit functions_max, %d", len(functions), wire.FunctionsMax)
	}
	d := &Document{Functions: functions}
	d.write(types)
	return d, nil
}

// write makes the JSON and the hash, which is of all the rest.
func (d *Document) write(types Types) {
	w := writer{out: make([]byte, 0, describedBytes*(len(d.Functions)+1))}
	w.object(4)
	w.key("functions")
	w.list(len(d.Functions))
	for _, f := range d.Functions {
		w.function(f, parts{doc: true, hash: true})
	}
	w.end(']')
	before := len(w.out)
	w.key("nearcall")
	w.out, w.follows = append(w.out, version...), true
	w.key("types")
	w.types(types)
	w.end('}')
	d.hash = sha256.Sum256(w.out)
	member := writer{follows: true}
	member.textUnlessEmpty("hash", d.Hash())
	d.json = slices.Insert(w.out, before, member.out...)
}

func (types Types) merge(f *Function) error {
	for name, made := range f.Types {
		if known, ok := types[name]; ok && !known.Equal(made) {
			return fmt.Errorf("function %s uses a struct %s that differs from another function's: rename one", f.Name, name)
		}
		types[name] = made
	}
	return nil
}

// JSON returns the document in canonical form, with its hash. The caller must not
// change it.
func (d *Document) JSON() []byte { return d.json }

// Hash returns the hash of the document in hex.
func (d *Document) Hash() string { return hex.EncodeToString(d.hash[:]) }

// WelcomeHash returns the first eight bytes of the hash in the form of the welcome, a
// little-endian number.
func (d *Document) WelcomeHash() uint64 { return binary.LittleEndian.Uint64(d.hash[:]) }

// Function returns the function with that name, or nil if there is none.
func (d *Document) Function(name string) *Function {
	for _, f := range d.Functions {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// ParseDocument reads a document, which need not be canonical: a person may have laid
// it out. It verifies the hash over everything in the document, including members that
// this version does not know.
func ParseDocument(text []byte) (*Document, error) {
	tree, err := readJSONTree(text)
	if err != nil {
		return nil, fmt.Errorf("schema document: %w", err)
	}
	object, err := asObject(tree)
	if err == nil && asInt(object["nearcall"]) != 1 {
		err = fmt.Errorf("member \"nearcall\" is not %s: this is no schema document, or one of another version", version)
	}
	if err != nil {
		return nil, fmt.Errorf("schema document: %w", err)
	}
	d := &Document{}
	if err := d.verify(object); err != nil {
		return nil, fmt.Errorf("schema document: %w", err)
	}
	if err := d.readFunctions(object); err != nil {
		return nil, fmt.Errorf("schema document: %w", err)
	}
	return d, nil
}

// readJSONTree refuses text that two readers could read as two documents: text that is
// not UTF-8, or that goes on after its end.
func readJSONTree(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("the text is not valid UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the document")
	}
	return tree, nil
}

func (d *Document) verify(object map[string]any) error {
	stated, err := member[string](object, "hash", true)
	if err != nil {
		return err
	}
	delete(object, "hash")
	d.hash = sha256.Sum256(appendTreeJSON(nil, object))
	if d.Hash() != stated {
		return fmt.Errorf("the hash is %.64q but the content's is %s: the document was changed", stated, d.Hash())
	}
	object["hash"] = stated
	d.json = appendTreeJSON(nil, object)
	return nil
}

func (d *Document) readFunctions(object map[string]any) error {
	types, err := typesFromTree(object["types"])
	if err != nil {
		return err
	}
	list, err := member[[]any](object, "functions", true)
	if err != nil {
		return err
	}
	if len(list) > wire.FunctionsMax {
		return fmt.Errorf("%d functions are more than the limit functions_max, %d", len(list), wire.FunctionsMax)
	}
	names := map[string]bool{}
	for _, tree := range list {
		f, err := functionFromTree(tree, types)
		if err != nil {
			return err
		}
		if names[f.Name] {
			return fmt.Errorf("two functions are called %s", f.Name)
		}
		names[f.Name] = true
		d.Functions = append(d.Functions, f)
	}
	return nil
}
