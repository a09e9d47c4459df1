package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/status"
)

// lineColumns is how much JSON a person reads on one line.
const lineColumns = 72

// A calling is one run of `nearcall call`.
type calling struct {
	*program
	json        bool
	raw         bool
	metadata    []string
	traceParent string
	hasFlag     func(name string) bool
}

func (p *program) callCommand() *cobra.Command {
	c := &calling{program: p}
	cmd := &cobra.Command{
		Use: "call [flags] ADDRESS FUNCTION [ARGUMENT...]",
		// The usage line says itself where flags stand.
		DisableFlagsInUseLine: true,
		Short:                 "Call a function and print its result",
		Long: `Calls a function and prints its result.

The arguments are converted to the types of the function's parameters. Text,
numbers, true and false are written as they are, and so are times
(2026-01-02T15:04:05Z) and durations with their unit (1.5s). null stands for no
value, and lists, maps and structs are JSON. An argument - of type string or bytes
is read from standard input.

A result that is a string or bytes is printed as it is, with no newline added to
bytes; everything else is printed as JSON.

Flags stand before ADDRESS. What follows ADDRESS is never taken for a flag, so
arguments may begin with -.

` + exitCodesText(),
		Example: `  nearcall call unix:/tmp/demo.sock ack 3 4
  nearcall call unix:/tmp/demo.sock greet '{"name": "Ada", "tags": ["first"]}'
  nearcall call --timeout 100ms unix:/tmp/demo.sock sleep 50
  gzip -c file | nearcall call --raw unix:/tmp/demo.sock echo - | gunzip`,
		Args:              arguments(cobra.MinimumNArgs(2)),
		ValidArgsFunction: p.completeFunction,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.jsonError = c.json
			c.hasFlag = func(name string) bool { return cmd.Flags().Lookup(name) != nil }
			return c.run(cmd.Context(), args[0], args[1], args[2:])
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVar(&c.json, "json", false, "print the result, and an error, as JSON whatever its type")
	cmd.Flags().BoolVar(&c.raw, "raw", false, "send one argument as raw bytes and print the reply as it is, without asking for the function's types")
	cmd.Flags().StringArrayVar(&c.metadata, "metadata", nil, "send the pair `KEY=VALUE` with the call; may be given several times")
	cmd.Flags().StringVar(&c.traceParent, "traceparent", "", "send a W3C trace context with the call")
	cmd.MarkFlagsMutuallyExclusive("json", "raw")
	return cmd
}

func (c *calling) run(ctx context.Context, address, function string, texts []string) error {
	server, err := c.client(address)
	if err != nil {
		return err
	}
	defer server.Close()
	options, err := c.options()
	if err != nil {
		return err
	}
	server = server.With(options...)
	if c.raw {
		return c.runRaw(ctx, server, function, texts)
	}
	by, description, left, err := c.describe(ctx, server, function)
	if err != nil {
		return err
	}
	if texts, err = c.readDashes(texts, description); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	description, reply, err := c.call(ctx, server, by, description, texts)
	if err != nil {
		return err
	}
	return c.print(description, reply)
}

// describe learns the function, and returns what is left of the call's time. The time that
// it takes to read standard input is not counted.
func (c *calling) describe(ctx context.Context, server *client.Client, function string) (*client.Function, *schema.Function, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	started := time.Now()
	by, description, err := describe(ctx, server, function)
	return by, description, c.timeout - time.Since(started), err
}

// options are those of the call.
func (c *calling) options() (options []client.CallOption, err error) {
	for _, pair := range c.metadata {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return nil, usageError{fmt.Errorf("--metadata %q has no value; write --metadata KEY=VALUE", pair)}
		}
		options = append(options, client.Metadata(key, value))
	}
	if c.traceParent != "" {
		options = append(options, client.TraceParent(c.traceParent))
	}
	return options, nil
}

// call encodes and calls, and once more where another server has taken the place of
// the one that described the function. It returns the description that was used.
func (c *calling) call(ctx context.Context, server *client.Client, by *client.Function, f *schema.Function, texts []string) (*schema.Function, []byte, error) {
	reply, err := c.callBy(ctx, server, by, f, texts)
	if !wasReplaced(err) {
		return f, reply, err
	}
	if by, f, err = describe(ctx, server, by.Name); err != nil {
		return nil, nil, err
	}
	reply, err = c.callBy(ctx, server, by, f, texts)
	return f, reply, err
}

func (c *calling) callBy(ctx context.Context, server *client.Client, by *client.Function, f *schema.Function, texts []string) ([]byte, error) {
	request, err := c.encodeTexts(f, texts)
	if err != nil {
		return nil, err
	}
	return server.CallEncoded(ctx, by, request, nil)
}

// wasReplaced reports whether the arguments were encoded for another server.
func wasReplaced(err error) bool {
	var failure *status.Error
	return errors.As(err, &failure) && failure.Code == status.Aborted && failure.Outcome == status.OutcomeNotExecuted
}

func (c *calling) runRaw(ctx context.Context, server *client.Client, function string, texts []string) error {
	payload, err := c.rawArgument(texts)
	if err != nil {
		return err
	}
	reply, err := server.CallRaw(ctx, function, payload, nil)
	if err == nil {
		_, err = c.out.Write(reply)
	}
	return err
}

// rawArgument is the one argument of a raw call; none is empty.
func (c *calling) rawArgument(texts []string) ([]byte, error) {
	if len(texts) > 1 {
		return nil, usageError{errors.New("--raw sends one argument")}
	}
	payload, err := c.readDashes(texts)
	if err != nil {
		return nil, err
	}
	return []byte(payload[0]), nil
}

// encodeTexts makes the arguments of texts that were read. What does not fit is an
// error of the call, with the code the server would give it.
func (c *calling) encodeTexts(f *schema.Function, texts []string) ([]byte, error) {
	request, err := codec.AppendArgumentsFromText(nil, f, texts)
	if err != nil {
		hint := ""
		if slices.ContainsFunc(texts, c.looksLikeFlag) {
			hint = "; flags stand before the address"
		}
		return nil, status.Errorf(status.InvalidArgument, "%w; the function is %s%s", err, signature(f), hint).With(status.OutcomeNotExecuted)
	}
	return request, nil
}

// looksLikeFlag: an argument may be meant, but is refused.
func (c *calling) looksLikeFlag(text string) bool {
	name, found := strings.CutPrefix(text, "--")
	name, _, _ = strings.Cut(name, "=")
	return found && c.hasFlag(name)
}

// readDashes replaces the arguments that stand for standard input: those of
// raw calls, and those that are string or bytes to the function.
func (c *calling) readDashes(texts []string, functions ...*schema.Function) ([]string, error) {
	texts = slices.Clone(texts)
	if len(texts) == 0 && len(functions) == 0 {
		texts = []string{""}
	}
	for i, text := range texts {
		if text != "-" || !readsInput(functions, i) {
			continue
		}
		input, err := io.ReadAll(c.in)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		texts[i] = string(input)
	}
	return texts, nil
}

func readsInput(functions []*schema.Function, index int) bool {
	for _, f := range functions {
		param, _ := f.ParamAt(index)
		return isText(param.Type)
	}
	return true
}

// isText: string or bytes, optional or not.
func isText(t schema.Type) bool {
	if t.Kind == schema.Optional {
		return isText(*t.Element)
	}
	return t.Kind == schema.String || t.Kind == schema.Bytes
}

func (c *calling) print(f *schema.Function, reply []byte) error {
	if !c.json && len(f.Results) == 1 && isText(f.Results[0]) {
		return c.printText(f, reply)
	}
	if !c.json && len(f.Results) == 0 {
		return nil
	}
	text, err := codec.AppendResultsJSON(nil, f, reply)
	if err != nil {
		return status.Errorf(status.Internal, "the result of %s cannot be shown: %w", f.Name, err).With(status.OutcomeExecutedResultLost)
	}
	if !c.json && len(text) > lineColumns {
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, "", "  "); err != nil {
			return err
		}
		text = indented.Bytes()
	}
	_, err = fmt.Fprintf(c.out, "%s\n", text)
	return err
}

func (c *calling) printText(f *schema.Function, reply []byte) error {
	// Both decode into bytes; only text gets a newline.
	values, err := codec.For[*[]byte]()
	if err != nil {
		return err
	}
	var data *[]byte
	if _, err := values.Decode(reply, &data); err != nil {
		return err
	}
	if data == nil {
		_, err = fmt.Fprintln(c.out, "null")
		return err
	}
	if _, err := c.out.Write(*data); err != nil {
		return err
	}
	if f.Results[0].Kind != schema.Bytes {
		_, err = fmt.Fprintln(c.out)
	}
	return err
}
