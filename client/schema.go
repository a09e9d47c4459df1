package client

import (
	"context"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
)

// A Function is the description of a function: its parameters, its results, its
// documentation, and the structs that they use.
type Function = schema.Function

// A Document is the schema of a server: the descriptions of all its functions.
type Document = schema.Document

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
	return document, nil
}

// Stats asks the server for its counters, which it returns as a JSON object.
func (c *Client) Stats(ctx context.Context) (string, error) {
	return Call[string](ctx, c, functionStats)
}

// Describe asks the server for the description of one function. It fails with
// UNIMPLEMENTED if there is no function with that name.
func (c *Client) Describe(ctx context.Context, name string) (*Function, error) {
	r := c.take()
	defer c.core.give(r)
	if failure := c.core.exchange(ctx, r, wire.Resolve, wire.CodecRaw, name, []byte(name)); failure != nil {
		return nil, failure
	}
	f, failure := readDescription(r)
	return f, asError(failure)
}
