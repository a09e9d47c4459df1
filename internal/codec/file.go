package codec

import (
	"net"
	"os"
	"reflect"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
)

// fileNode is the node of *os.File. The value is the number of a descriptor that
// travels beside the payload.
type fileNode struct{}

func (fileNode) append(dst []byte, v reflect.Value, in place) ([]byte, error) {
	number, err := in.files.GiveFile(v.Interface().(*os.File))
	if err != nil {
		return dst, err
	}
	return msgpack.AppendDescriptor(dst, number), nil
}

func (fileNode) decode(src []byte, v reflect.Value, in place) ([]byte, error) {
	number, rest, err := msgpack.ReadDescriptor(src, schema.File.String())
	if err != nil {
		return src, err
	}
	file, err := in.files.TakeFile(number)
	v.Set(reflect.ValueOf(file))
	return rest, err
}

// connectionNode is the node of *net.TCPConn. The value is the same.
type connectionNode struct{}

func (connectionNode) append(dst []byte, v reflect.Value, in place) ([]byte, error) {
	number, err := in.files.GiveConnection(v.Interface().(*net.TCPConn))
	if err != nil {
		return dst, err
	}
	return msgpack.AppendDescriptor(dst, number), nil
}

func (connectionNode) decode(src []byte, v reflect.Value, in place) ([]byte, error) {
	number, rest, err := msgpack.ReadDescriptor(src, schema.Connection.String())
	if err != nil {
		return src, err
	}
	connection, err := in.files.TakeConnection(number)
	v.Set(reflect.ValueOf(connection))
	return rest, err
}
