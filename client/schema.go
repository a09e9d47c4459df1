package client

import (
	"context"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A Function is the description of a function, as its server gave it. It must not be
// changed.
type Function struct {
	Name, Doc string
	// Params are the parameters. For a variadic function the last one stands for any number
	// of arguments.
	Params []Param
	// Results are the types of the results, written as `nearcall describe` writes them.
	Results []string
	// Idempotent says that running the function twice does no more harm than running it
	// once. Raw says that it takes and returns bytes, so that CallRaw can call it.
	Idempotent, Raw, Variadic bool
	// Hash is that of the description without its documentation, in 64 hexadecimal digits.
	Hash string

	description *schema.Function
}

// A Param is a parameter of a function, with its type as `nearcall describe` writes it.
type Param struct{ Name, Type string }

// JSON returns the description as spec/schema.md has it, with the structs that the function
// uses.
func (f *Function) JSON() []byte { return f.description.JSON() }

// ParseFunction reads a description that Function.JSON has returned, so that a program can
// keep one. The error is a *status.Error with code INVALID_ARGUMENT.
func ParseFunction(text []byte) (*Function, error) {
	of, err := schema.ParseFunctionJSON(text)
	if err != nil {
		return nil, notExecuted(status.InvalidArgument, "%w", err)
	}
	return newFunction(of), nil
}

func newFunction(of *schema.Function) *Function {
	f := &Function{Name: of.Name, Doc: of.Doc, Idempotent: of.Idempotent, Raw: of.Raw, Variadic: of.Variadic, Hash: of.Hash, description: of}
	for _, param := range of.Params {
		f.Params = append(f.Params, Param{Name: param.Name, Type: param.Type.String()})
	}
	for _, result := range of.Results {
		f.Results = append(f.Results, result.String())
	}
	return f
}

// A Document is the schema of a server: the descriptions of all its functions. It must not
// be changed.
type Document struct {
	// Functions are in the order in which they were registered.
	Functions []*Function
	// Hash tells schemas apart, in 64 hexadecimal digits.
	Hash string

	document *schema.Document
}

// Function returns the function with that name, or nil if there is none.
func (d *Document) Function(name string) *Function {
	for _, f := range d.Functions {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// JSON returns the document as spec/schema.md has it, which is what `nearcall schema export`
// writes. It must not be changed.
func (d *Document) JSON() []byte { return d.document.JSON() }

// The names of built-in functions, which every server has.
const (
	functionSchema = "nearcall.schema"
	functionStats  = "nearcall.stats"
)

// Schema asks the server for the descriptions of all its functions.
func (c *Client) Schema(ctx context.Context) (*Document, error) {
	text, err := Call[string](ctx, c, functionSchema)
	if err != nil {
		return nil, err
	}
	document, err := schema.ParseDocument([]byte(text))
	if err != nil {
		return nil, resultLost(err)
	}
	made := &Document{Hash: document.Hash(), document: document}
	for _, f := range document.Functions {
		made.Functions = append(made.Functions, newFunction(f))
	}
	return made, nil
}

// Stats asks the server for its counters, which it returns as a JSON object: the
// server.Statistics of a server in Go.
func (c *Client) Stats(ctx context.Context) (string, error) {
	return Call[string](ctx, c, functionStats)
}

// Describe asks the server for the description of one function. It fails with
// UNIMPLEMENTED if there is no function with that name.
func (c *Client) Describe(ctx context.Context, name string) (*Function, error) {
	r := c.take()
	defer c.core.give(r)
	if failure := c.core.exchange(ctx, r, wire.Resolve, wire.CodecRaw, name, []byte(name)); failure != nil {
		// However far the question came: it starts no function.
		return nil, failure.With(status.OutcomeNotExecuted)
	}
	f, failure := readDescription(r)
	if failure != nil {
		return nil, failure
	}
	return newFunction(f), nil
}
