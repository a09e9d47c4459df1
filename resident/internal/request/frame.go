package request

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/nearcall/nearcall/internal/wire"
)

// FrameHeaderBytes is the length of a frame without its text.
const FrameHeaderBytes = 16

// A FrameType says what a frame means.
type FrameType uint32

// The frames of a resident, and those of a launcher.
const (
	Running  FrameType = 1
	Exited   FrameType = 2
	Killed   FrameType = 3
	Plainly  FrameType = 4
	Ending   FrameType = 5
	Execute  FrameType = 6
	Report   FrameType = 7
	Signal   FrameType = 16
	Executed FrameType = 17
)

// A Frame is what both sides send after the request.
type Frame struct {
	Type          FrameType
	Value, Second uint32
	Text          string
}

// Append adds the frame's bytes to b. Text beyond the limit is cut.
func (f Frame) Append(b []byte) []byte {
	if len(f.Text) > wire.ResidentTextBytesMax {
		f.Text = f.Text[:wire.ResidentTextBytesMax]
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(f.Type))
	b = binary.LittleEndian.AppendUint32(b, f.Value)
	b = binary.LittleEndian.AppendUint32(b, f.Second)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Text)))
	return append(b, f.Text...)
}

// ParseFrame decodes a frame's header and returns how many bytes of text follow.
func ParseFrame(b []byte) (f Frame, textBytes int, err error) {
	if len(b) < FrameHeaderBytes {
		return Frame{}, 0, ErrMalformed
	}
	f = Frame{
		Type:   FrameType(binary.LittleEndian.Uint32(b)),
		Value:  binary.LittleEndian.Uint32(b[4:]),
		Second: binary.LittleEndian.Uint32(b[8:]),
	}
	count := binary.LittleEndian.Uint32(b[12:])
	if count > wire.ResidentTextBytesMax {
		return Frame{}, 0, fmt.Errorf("%w: a frame with %d bytes of text", ErrMalformed, count)
	}
	return f, int(count), nil
}

// ExecuteFrame asks the launcher to run a program.
func ExecuteFrame(arguments []string) (Frame, error) {
	text := strings.Join(arguments, "\x00") + "\x00"
	if len(arguments) == 0 || strings.Count(text, "\x00") != len(arguments) || len(text) > wire.ResidentTextBytesMax {
		return Frame{}, fmt.Errorf("%w: %d arguments of %d bytes in all", ErrMalformed, len(arguments), len(text))
	}
	return Frame{Type: Execute, Value: uint32(len(arguments)), Text: text}, nil
}

// ExecuteArguments returns what ExecuteFrame was given.
func (f Frame) ExecuteArguments() ([]string, error) {
	if f.Type != Execute || f.Value == 0 || uint64(f.Value) > uint64(len(f.Text)) {
		return nil, ErrMalformed
	}
	text := texts{rest: f.Text}
	arguments := text.take(int(f.Value))
	return arguments, text.end()
}
