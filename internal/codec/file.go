package codec

import (
	"net"
	"os"
	"reflect"

	"github.com/nearcall/nearcall/internal/memory"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
)

// fileNodeOf returns the node of a file or connection, or nil for any other type.
func fileNodeOf(t reflect.Type) node {
	switch t {
	case reflect.TypeFor[*os.File]():
		return fileNode{}
	case reflect.TypeFor[*net.TCPConn]():
		return connectionNode{}
	}
	return nil
}

// fileNode is the node of *os.File. The value is the number of a descriptor that
// travels beside the payload.
type fileNode struct{}

func (fileNode) append(dst []byte, m memory.Memory, in place) ([]byte, error) {
	number, err := in.beside.files().GiveFile(*memory.As[*os.File](m))
	if err != nil {
		return dst, err
	}
	return msgpack.AppendDescriptor(dst, number), nil
}

func (fileNode) decode(src []byte, m memory.Memory, in place) ([]byte, error) {
	number, rest, err := msgpack.ReadDescriptor(src, schema.File.String())
	if err != nil {
		return src, err
	}
	*memory.As[*os.File](m), err = in.beside.files().TakeFile(number)
	return rest, err
}

// connectionNode is the node of *net.TCPConn. The value is the same.
type connectionNode struct{}

func (connectionNode) append(dst []byte, m memory.Memory, in place) ([]byte, error) {
	number, err := in.beside.files().GiveConnection(*memory.As[*net.TCPConn](m))
	if err != nil {
		return dst, err
	}
	return msgpack.AppendDescriptor(dst, number), nil
}

func (connectionNode) decode(src []byte, m memory.Memory, in place) ([]byte, error) {
	number, rest, err := msgpack.ReadDescriptor(src, schema.Connection.String())
	if err != nil {
		return src, err
	}
	*memory.As[*net.TCPConn](m), err = in.beside.files().TakeConnection(number)
	return rest, err
}
