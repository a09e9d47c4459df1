package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// protobufProtocol is messages of worker_protocol.proto, each behind its length. There
// are so few fields that a library for them would be most of this program.
type protobufProtocol struct{}

// Types of fields on the wire.
const (
	typeVarint  = 0
	typeFixed64 = 1
	typeBytes   = 2
	typeFixed32 = 5
	typeBits    = 3
)

// Fields of a request; 2 are the inputs, 5 is the verbosity.
const (
	requestArguments  = 1
	requestID         = 3
	requestCancel     = 4
	requestSandboxDir = 6
)

// Fields of a response.
const (
	responseExitCode     = 1
	responseOutput       = 2
	responseID           = 3
	responseWasCancelled = 4
)

var errCut = errors.New("it ends within a field")

func (protobufProtocol) receive(in *bufio.Reader) (workRequest, error) {
	length, err := binary.ReadUvarint(in)
	if errors.Is(err, io.EOF) { // not io.ErrUnexpectedEOF: nothing of a message was there
		return workRequest{}, io.EOF
	}
	if err == nil && length > math.MaxInt32 {
		err = fmt.Errorf("it begins as one of %d bytes, which is more than a message can have; it is not protobuf", length)
	}
	var message bytes.Buffer
	if err == nil {
		// Not all at once: the length may be anything.
		_, err = io.CopyN(&message, in, int64(length))
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("it ends after %d of %d bytes", message.Len(), length)
	}
	var request workRequest
	if err == nil {
		err = request.parse(message.Bytes())
	}
	if err != nil {
		return request, fmt.Errorf("the request cannot be read: %w", err)
	}
	return request, nil
}

// parse leaves out what it does not know, as newer versions of Bazel may say more. Of a
// field that is there twice the last one counts.
func (r *workRequest) parse(message []byte) error {
	for len(message) > 0 {
		tag, rest, err := varint(message)
		if err != nil {
			return err
		}
		number, text, rest, err := value(tag&(1<<typeBits-1), rest)
		if err != nil {
			return err
		}
		message = rest
		switch tag {
		case requestArguments<<typeBits | typeBytes:
			r.Arguments = append(r.Arguments, string(text))
		case requestID<<typeBits | typeVarint:
			r.RequestID = int32(number) //nolint:gosec // as protobuf has it: the lower half
		case requestCancel<<typeBits | typeVarint:
			r.Cancel = number != 0
		case requestSandboxDir<<typeBits | typeBytes:
			r.SandboxDir = string(text)
		}
	}
	return nil
}

// value takes a field's value of whatever type: a number, or bytes.
func value(kind uint64, message []byte) (number uint64, text, rest []byte, err error) {
	length := uint64(0)
	switch kind {
	case typeVarint:
		number, rest, err = varint(message)
		return number, nil, rest, err
	case typeFixed64:
		length = 8
	case typeFixed32:
		length = 4
	case typeBytes:
		if length, message, err = varint(message); err != nil {
			return 0, nil, nil, err
		}
	default:
		return 0, nil, nil, fmt.Errorf("it has a field of type %d", kind)
	}
	if length > uint64(len(message)) {
		return 0, nil, nil, errCut
	}
	return 0, message[:length], message[length:], nil
}

func varint(message []byte) (number uint64, rest []byte, err error) {
	number, n := binary.Uvarint(message)
	if n <= 0 {
		return 0, nil, errCut
	}
	return number, message[n:], nil
}

func (protobufProtocol) send(out io.Writer, response workResponse) error {
	var message []byte
	message = appendNumber(message, responseExitCode, response.ExitCode)
	if response.Output != "" {
		// Bazel takes no response whose text is not UTF-8, and the build fails.
		output := strings.ToValidUTF8(response.Output, "\uFFFD")
		message = append(message, responseOutput<<typeBits|typeBytes)
		message = append(binary.AppendUvarint(message, uint64(len(output))), output...)
	}
	message = appendNumber(message, responseID, response.RequestID)
	if response.WasCancelled {
		message = appendNumber(message, responseWasCancelled, 1)
	}
	_, err := out.Write(append(binary.AppendUvarint(nil, uint64(len(message))), message...))
	return err
}

// appendNumber leaves out 0, which is what a field has that is not there. Negative ones
// are of 64 bits.
func appendNumber(message []byte, field byte, number int32) []byte {
	if number == 0 {
		return message
	}
	return binary.AppendUvarint(append(message, field<<typeBits|typeVarint), uint64(int64(number))) //nolint:gosec // as protobuf has it
}
