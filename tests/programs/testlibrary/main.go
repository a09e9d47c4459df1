// Package main is the Go library that tests load into programs of other
// languages. It has the demonstration's functions and some that only tests need.
package main

import (
	"net"
	"os"
	"runtime"
	"syscall"

	"github.com/nearcall/nearcall/embed"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

func init() { embed.Serve(register) }

func register(s *server.Server) error {
	demo.Register(s)
	demo.RegisterMetadata(s)
	s.Register("goroutine", func() int64 {
		answer := make(chan int64)
		go func() { answer <- 1 }()
		return <-answer
	})
	s.Register("deep", deep, server.Params("depth"))
	s.Register("collect", func() int64 { runtime.GC(); return 1 })
	s.Register("process_id", func() int64 { return int64(os.Getpid()) })
	s.Register("blocked_signals", blockedSignals)
	s.Register("broken_pipe", writeToBrokenPipe)
	registerTransfer(s)
	registerShapes(s)
	return nil
}

func main() {}

// registerTransfer declares a function as a next version does, where the process that loads
// the library is to have that.
func registerTransfer(s *server.Server) {
	if os.Getenv("NEARCALL_TEST_NEXT_VERSION") == "" {
		s.Register("transfer", func(src, dst string) string { return src + " to " + dst }, server.Params("src", "dst"))
		return
	}
	s.Register("transfer", func(dst, src string) string { return src + " to " + dst }, server.Params("dst", "src"))
}

// deep makes the goroutine's stack grow and uses it to the end.
func deep(depth int64) int64 {
	var frame [64]int64
	if depth == 0 {
		return 0
	}
	frame[depth%64] = deep(depth-1) + 1
	return frame[depth%64]
}

// writeToBrokenPipe returns the error number of a write nobody will read.
func writeToBrokenPipe() (int64, error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	syscall.Close(ends[1])
	file := os.NewFile(uintptr(ends[0]), "pair")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err = conn.Write([]byte{1}); err == nil {
		return 0, nil
	}
	return 1, nil
}
