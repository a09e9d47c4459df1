package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/client"
)

var errDiffers = errors.New("the echo differs")

// openShared returns callers that share one client.
func openShared(address string, payload []byte, callers int) (subjects, error) {
	c, err := client.New(address)
	if err != nil {
		return subjects{}, err
	}
	calls := make([]calling.Call, callers)
	for i := range calls {
		calls[i] = echoCall(c, payload)
	}
	return subjects{calls, []*client.Client{c}}, compareEcho(c, payload)
}

// echoCall checks an answer by its length.
func echoCall(c *client.Client, payload []byte) calling.Call {
	ctx := context.Background()
	answer := make([]byte, 0, len(payload))
	return func() error {
		var err error
		answer, err = c.CallRaw(ctx, "echo", payload, answer[:0])
		if err == nil && len(answer) != len(payload) {
			err = errDiffers
		}
		return err
	}
}

// compareEcho makes one call and checks the answer in full.
func compareEcho(c *client.Client, payload []byte) error {
	answer, err := c.CallRaw(context.Background(), "echo", payload, nil)
	if err == nil && !bytes.Equal(answer, payload) {
		err = errDiffers
	}
	return err
}

// openBare returns callers with a connection each.
func openBare(address string, payload []byte, callers int) (subjects, error) {
	network, target, _ := strings.Cut(address, ":")
	calls := make([]calling.Call, callers)
	for i := range calls {
		connection, err := net.Dial(network, target)
		if err != nil {
			return subjects{}, err
		}
		calls[i] = bareCall(connection, payload)
		if err := calls[i](); err != nil {
			return subjects{}, err
		}
	}
	return subjects{calls: calls}, nil
}

func bareCall(connection net.Conn, payload []byte) calling.Call {
	message := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
	message = append(message, payload...)
	answer := make([]byte, len(message))
	reader := bufio.NewReaderSize(connection, 64<<10)
	compared := false
	return func() error {
		if _, err := connection.Write(message); err != nil {
			return err
		}
		if _, err := io.ReadFull(reader, answer); err != nil {
			return err
		}
		// The first answer is compared in full, the others by their length.
		if compared || bytes.Equal(answer, message) {
			compared = true
			return nil
		}
		return errDiffers
	}
}
