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

	"github.com/nearcall/nearcall/client"
)

var errDiffers = errors.New("the echo differs")

// openShared returns callers that share one client.
func openShared(address string, payload []byte, callers int) ([]subject, error) {
	c, err := client.New(address)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	subjects := make([]subject, callers)
	for i := range subjects {
		answer := make([]byte, 0, len(payload))
		subjects[i] = func() error {
			var err error
			answer, err = c.CallRaw(ctx, "echo", payload, answer[:0])
			if err == nil && len(answer) != len(payload) {
				err = errDiffers
			}
			return err
		}
	}
	answer, err := c.CallRaw(ctx, "echo", payload, nil)
	if err == nil && !bytes.Equal(answer, payload) {
		err = errDiffers
	}
	return subjects, err
}

// openBare returns callers with a connection each.
func openBare(address string, payload []byte, callers int) ([]subject, error) {
	subjects := make([]subject, callers)
	for i := range subjects {
		connection, err := net.Dial("unix", strings.TrimPrefix(address, "unix:"))
		if err != nil {
			return nil, err
		}
		subjects[i] = bareCall(connection, payload)
		if err := subjects[i](); err != nil {
			return nil, err
		}
	}
	return subjects, nil
}

func bareCall(connection net.Conn, payload []byte) subject {
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
