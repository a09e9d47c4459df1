package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/schema"
)

const sourceHint = "give the address of a server, as unix:/path, or a file made by 'nearcall schema export'"

// isAddress tells the address of a server from the name of a file. That of a library
// is refused, by the client, with a sentence of its own.
func isAddress(source string) bool {
	return slices.ContainsFunc([]string{"unix:", "tcp:", "tls:", "embed:"}, func(scheme string) bool {
		return strings.HasPrefix(source, scheme)
	})
}

// document returns the schema of a server, of a file, or of standard input.
func (p *program) document(ctx context.Context, source string) (*schema.Document, error) {
	if isAddress(source) {
		c, err := p.client(source)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		served, err := c.Schema(ctx)
		if err != nil {
			return nil, err
		}
		return schema.ParseDocument(served.JSON())
	}
	text, err := p.readSource(source)
	if err != nil {
		return nil, err
	}
	document, err := schema.ParseDocument(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; %s", source, err, sourceHint)
	}
	return document, nil
}

func (p *program) readSource(source string) ([]byte, error) {
	if source == "-" {
		return io.ReadAll(p.in)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, sourceHint)
	}
	return text, nil
}

// describe asks a server for the description of a function. The client calls by the one
// result, and the other has what it takes to encode and decode.
func describe(ctx context.Context, c *client.Client, name string) (*client.Function, *schema.Function, error) {
	by, err := c.Describe(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	f, err := schema.ParseFunctionJSON(by.JSON())
	return by, f, err
}

// function returns one function of a source.
func (p *program) function(ctx context.Context, source, name string) (*schema.Function, error) {
	if isAddress(source) {
		c, err := p.client(source)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		_, f, err := describe(ctx, c, name)
		return f, err
	}
	document, err := p.document(ctx, source)
	if err != nil {
		return nil, err
	}
	if f := document.Function(name); f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("%s has no function %q; 'nearcall list %s' shows what it has", source, name, source)
}
