package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A workRequest is what Bazel asks for. What a request says of its inputs and their
// digests is for workers that keep results; this one keeps none.
type workRequest struct {
	Arguments  []string `json:"arguments"`
	RequestID  int32    `json:"requestId"` // 0: no other request is sent meanwhile
	Cancel     bool     `json:"cancel"`
	SandboxDir string   `json:"sandboxDir"` // where paths are relative to
}

// A workResponse is sent for each request that is no cancellation.
type workResponse struct {
	ExitCode     int32  `json:"exitCode"`
	Output       string `json:"output"` // UTF-8
	RequestID    int32  `json:"requestId"`
	WasCancelled bool   `json:"wasCancelled"`
}

// A protocol is one way to write messages.
type protocol interface {
	receive(in *bufio.Reader) (workRequest, error) // io.EOF: there are no more
	send(out io.Writer, response workResponse) error
}

// protocolOf tells by the first bytes. A JSON message, as Bazel prints it, begins with a
// brace and a quote or another brace. A protobuf message begins with its length: a brace
// would be 123 bytes, but then comes the tag of a field, of which none is such a
// character. (It can be a line feed, with which Bazel's JSON does not go on.)
func protocolOf(in *bufio.Reader) (protocol, error) {
	first, err := in.Peek(1)
	if err != nil || first[0] != '{' {
		return protobufProtocol{}, err
	}
	first, err = in.Peek(2)
	if err != nil || slices.Contains([]byte("\"} \t\r"), first[1]) {
		return &jsonProtocol{}, nil // what there is of it says what is wrong
	}
	return protobufProtocol{}, nil
}

// jsonProtocol is messages one after the other, with or without line feeds between them.
type jsonProtocol struct {
	decoder *json.Decoder
}

func (p *jsonProtocol) receive(in *bufio.Reader) (workRequest, error) {
	if p.decoder == nil {
		p.decoder = json.NewDecoder(in)
	}
	var request workRequest
	err := p.decoder.Decode(&request)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("the request cannot be read: %w", err)
	}
	return request, err
}

func (*jsonProtocol) send(out io.Writer, response workResponse) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(response)
}
