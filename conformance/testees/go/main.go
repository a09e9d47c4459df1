// Command testee drives the Go client for the conformance runner: a command a
// line on standard input, an answer a line on standard output.
// conformance/README.md describes the protocol.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/status"
)

type command struct {
	Do            string `json:"do"`
	Address       string `json:"address"`
	AttemptsMax   int    `json:"attempts_max"`
	FrameBytesMax int    `json:"frame_bytes_max"`
	Name          string `json:"name"`
	Codec         string `json:"codec"`
	TimeoutMs     int64  `json:"timeout_ms"`
	PayloadHex    string `json:"payload_hex"`
	Arguments     []any  `json:"arguments"`
}

type answer struct {
	OK         bool    `json:"ok"`
	PayloadHex *string `json:"payload_hex,omitempty"`
	Value      *any    `json:"value,omitempty"`
	Code       string  `json:"code,omitempty"`
	Outcome    string  `json:"outcome,omitempty"`
	Message    string  `json:"message,omitempty"`
}

// testee holds one client at a time.
type testee struct {
	client *client.Client
}

func main() {
	var t testee
	if err := t.serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testee:", err)
		os.Exit(1)
	}
}

func (t *testee) serve(in io.Reader, out io.Writer) error {
	commands := json.NewDecoder(bufio.NewReader(in))
	commands.UseNumber()
	answers := json.NewEncoder(out)
	for {
		var c command
		err := commands.Decode(&c)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := answers.Encode(t.answer(&c)); err != nil {
			return err
		}
	}
}

func (t *testee) answer(c *command) answer {
	a := answer{OK: true}
	err := t.do(c, &a)
	if err == nil {
		return a
	}
	var failure *status.Error
	if !errors.As(err, &failure) {
		return answer{Code: "not a status.Error", Message: err.Error()}
	}
	return answer{Code: failure.Code.String(), Outcome: failure.Outcome.String(), Message: failure.Message}
}

func (t *testee) do(c *command, a *answer) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.TimeoutMs)*time.Millisecond)
	defer cancel()
	switch c.Do {
	case "connect":
		return t.connect(c)
	case "call":
		return t.call(ctx, c, a)
	case "ping":
		_, err := t.client.Ping(ctx)
		return err
	case "close":
		return t.close()
	}
	return fmt.Errorf("no command %q", c.Do)
}

func (t *testee) connect(c *command) (err error) {
	options := []client.Option{client.WithAttempts(c.AttemptsMax)}
	if c.FrameBytesMax > 0 {
		options = append(options, client.WithFrameBytesMax(c.FrameBytesMax))
	}
	t.client, err = client.New(c.Address, options...)
	return err
}

func (t *testee) call(ctx context.Context, c *command, a *answer) error {
	if c.Codec == "raw" {
		payload, err := hex.DecodeString(c.PayloadHex)
		if err != nil {
			return err
		}
		reply, err := t.client.CallRaw(ctx, c.Name, payload, nil)
		text := hex.EncodeToString(reply)
		a.PayloadHex = &text
		return err
	}
	arguments, err := numbers(c.Arguments)
	if err != nil {
		return err
	}
	value, err := client.Call[any](ctx, t.client, c.Name, arguments...)
	a.Value = &value
	return err
}

// numbers makes whole numbers of those that JSON has: a program has them so.
func numbers(arguments []any) ([]any, error) {
	for i, argument := range arguments {
		if text, ok := argument.(json.Number); ok {
			number, err := text.Int64()
			if err != nil {
				return nil, err
			}
			arguments[i] = number
		}
	}
	return arguments, nil
}

func (t *testee) close() error {
	if t.client == nil {
		return nil
	}
	err := t.client.Close()
	t.client = nil
	return err
}
