package program

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// A bundle has files in the places where values can be.
type bundle struct {
	Name  string    `nearcall:"name"`
	File  *os.File  `nearcall:"file"`
	Spare **os.File `nearcall:"spare"`
}

// registerFileFunctions adds functions that take and return files.
func registerFileFunctions(s *server.Server) {
	s.Register("file_read", fileRead, server.Params("file"), server.Doc("What is left to read of a file."))
	s.Register("file_write", fileWrite, server.Params("file", "data"), server.Doc("Writes to a file and closes it."))
	s.Register("file_open", fileOpen, server.Params("path"), server.Doc("Opens a file for reading."))
	s.Register("file_same", func(file *os.File) *os.File { return file }, server.Params("file"))
	s.Register("file_pipe", os.Pipe, server.Doc("A new pipe: the end to read, and the end to write."))
	s.Register("file_join", fileJoin, server.Params("files"), server.Doc("What is left to read of several files."))
	s.Register("file_bundle", fileBundle, server.Params("bundle"))
	s.Register("file_hold", fileHold, server.Params("file", "duration_ms"), server.Doc("Holds a file, and says whether it was cancelled meanwhile."))
	s.Register("file_many", fileMany, server.Params("count"), server.Doc("That many descriptors of /dev/null."))
	s.Register("file_with", fileWith, server.Params("bytes_count"), server.Doc("A file beside that many bytes."))
	s.Register("connection_greet", connectionGreet, server.Params("connection", "text"), server.Doc("Writes text and closes."))
	s.Register("connection_dial", connectionDial, server.Params("address"), server.Doc("A connection to host:port."))
	s.Register("descriptors_open", descriptorsOpen, server.Doc("How many descriptors the server has open."))
}

func fileRead(file *os.File) ([]byte, error) {
	defer file.Close()
	return io.ReadAll(file)
}

func fileWrite(file *os.File, data []byte) (int64, error) {
	defer file.Close()
	n, err := file.Write(data)
	return int64(n), err
}

func fileOpen(path string) (*os.File, error) {
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, status.Errorf(status.NotFound, "%w", err)
	}
	return file, err
}

func fileJoin(files []*os.File) ([]byte, error) {
	var all []byte
	for _, file := range files {
		data, err := fileRead(file)
		if err != nil {
			return nil, err
		}
		all = append(all, data...)
	}
	return all, nil
}

func fileBundle(in bundle) (bundle, error) {
	in.Name = strings.ToUpper(in.Name)
	if in.Spare != nil {
		// The spare one takes the other's place.
		in.File.Close()
		in.File, in.Spare = *in.Spare, nil
	}
	return in, nil
}

func fileHold(ctx context.Context, file *os.File, durationMs int64) (bool, error) {
	defer file.Close()
	select {
	case <-ctx.Done():
		return true, ctx.Err()
	case <-time.After(time.Duration(durationMs) * time.Millisecond):
		return false, nil
	}
}

func fileMany(count int64) (files []*os.File, err error) {
	for range count {
		file, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func fileWith(count int64) (*os.File, []byte, error) {
	file, err := os.Open(os.DevNull)
	return file, make([]byte, count), err
}

func connectionGreet(connection *net.TCPConn, text string) error {
	defer connection.Close()
	_, err := io.WriteString(connection, text)
	return err
}

func connectionDial(address string) (*net.TCPConn, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func descriptorsOpen() (int64, error) {
	list, err := os.ReadDir("/proc/self/fd")
	return int64(len(list)), err
}
