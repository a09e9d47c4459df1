// Package program is the server that the tests of every language start as a
// process of its own, whatever engine it has. Beside the functions of package demo it
// has some that only tests want: they write to a ledger that outlives the server, and
// end it.
//
// It prints "ready ADDRESS" when it listens, and leaves on SIGTERM.
package program

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

// valuesHeld is for how many values of the largest size the server has room.
const valuesHeld = 8

// directedFor is for how long callers are told to call directed elsewhere.
const directedFor = 6 * time.Second

// Main is the whole program; options come before those of its command line.
func Main(options ...server.Option) {
	address := flag.String("address", "", "address to serve, such as unix:/path")
	ledger := flag.String("ledger", "", "pipe or file that ledger() appends keys to")
	verbose := flag.Bool("verbose", false, "log at debug level")
	helloTimeout := flag.Duration("hello-timeout", 2*time.Second, "see server.WithHelloTimeout")
	frameTimeout := flag.Duration("frame-timeout", 10*time.Second, "see server.WithFrameTimeout")
	frameSilence := flag.Duration("frame-silence", wire.FrameSilenceMs*time.Millisecond, "see server.WithFrameSilence")
	drainTimeout := flag.Duration("drain-timeout", 5*time.Second, "see server.WithDrainTimeout")
	memoryPerUser := flag.Int64("shared-memory-bytes-per-user", -1, "see server.WithSharedMemoryBytesPerUser; -1: the default")
	memoryArena := flag.Int("shared-memory-arena", wire.SharedMemoryArenaBytes, "see server.WithSharedMemoryArena")
	memoryAfter := flag.Int("shared-memory-after-calls", wire.SharedMemoryAfterCalls, "see server.WithSharedMemoryAfter")
	callsInFlight := flag.Int("calls-in-flight", wire.CallsInFlightMax, "see server.WithCallsInFlight: those of one connection")
	callsInFlightPerUser := flag.Int("calls-in-flight-per-user", wire.CallsInFlightPerUserMax, "see server.WithCallsInFlight: those of one user")
	connectionsPerUser := flag.Int("connections-per-user", wire.ConnectionsPerUserMax, "see server.WithConnections: those of one user")
	valueBytes := flag.Int("value-bytes-max", 0, "see server.WithValueBytesMax, with room for eight such values in each direction; 0: off")
	files := flag.Bool("files", false, "let functions take and return files, and serve some that do")
	generation := flag.Int("generation", 0, "serve the functions that change, as this generation declares them: 1 to 3; 0: without them")
	exits := flag.Bool("exit", true, "serve exit(code), which ends the server; what sends anything may find it")
	withParent := flag.Bool("with-parent", false, "end when the thread that started it ends, however that comes about")
	secure := newTLSFlags()
	flag.Parse()
	if *withParent {
		endWithParent()
	}

	level := slog.LevelWarn
	if *verbose {
		level = slog.LevelDebug
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	options = append(options,
		server.WithHelloTimeout(*helloTimeout), server.WithFrameTimeout(*frameTimeout), server.WithFrameSilence(*frameSilence),
		server.WithDrainTimeout(*drainTimeout), server.WithAbstractAddresses(),
		server.WithSharedMemoryArena(*memoryArena), server.WithSharedMemoryAfter(*memoryAfter),
		server.WithCallsInFlight(*callsInFlight, *callsInFlightPerUser),
		server.WithConnections(wire.ConnectionsMax, *connectionsPerUser),
	)
	if *memoryPerUser >= 0 {
		options = append(options, server.WithSharedMemoryBytesPerUser(*memoryPerUser))
	}
	if budget := int64(*valueBytes) * valuesHeld; budget > 0 {
		options = append(options, server.WithValueBytesMax(*valueBytes), server.WithInputBytes(budget, budget), server.WithOutputBytes(budget, budget))
	}
	if *files {
		options = append(options, server.WithFileDescriptors(nil))
	}
	s, err := server.New(append(options, secure.options()...)...)
	if err != nil {
		fail(err)
	}
	demo.Register(s)
	demo.RegisterMetadata(s)
	if *files {
		registerFileFunctions(s)
	}
	registerGeneration(s, *generation)
	registerStarts(s)
	if err := registerTestFunctions(s, *ledger); err != nil {
		fail(err)
	}
	if *exits {
		s.Register("exit", func(code int64) { os.Exit(int(code)) }, server.Params("code"))
	}
	if err := serve(s, *address); err != nil {
		fail(err)
	}
}

func serve(s *server.Server, address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	listener, err := s.Listen(ctx, address)
	if err != nil {
		return err
	}
	if network := listener.Addr().Network(); network != "unix" {
		address = network + ":" + listener.Addr().String()
	}
	fmt.Println("ready", address)
	return s.Serve(ctx, listener)
}

func registerTestFunctions(s *server.Server, path string) error {
	var ledger *os.File
	if path != "" {
		var err error
		if ledger, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
			return err
		}
	}
	// One write of eight bytes is atomic on pipes and on files opened to append.
	record := func(key uint64) (uint64, error) {
		_, err := ledger.Write(binary.LittleEndian.AppendUint64(nil, key))
		return key, err
	}
	s.Register("ledger", record, server.Params("key"))
	s.Register("ledger_slow", func(key uint64, durationMs int64) (uint64, error) {
		if _, err := record(key); err != nil {
			return 0, err
		}
		time.Sleep(time.Duration(durationMs) * time.Millisecond)
		return key, nil
	}, server.Params("key", "duration_ms"))
	// Nobody is there, so that callers that follow the direction come back.
	s.Register("directed", func(data []byte) []byte { return data }, server.Params("data"),
		server.Elsewhere(func(server.Peer) (string, time.Duration) { return "tls:directed.invalid:7000", directedFor }))
	s.Register("by_number", func(texts map[int64]string) map[int64]string { return texts }, server.Params("texts"))
	s.Register("oddly_named", func(self, from, size int64, timeout *int64) []int64 {
		if timeout == nil {
			timeout = new(int64)
		}
		return []int64{self, from, size, *timeout}
	}, server.Params("self", "from", "max-size", "timeout"))
	return nil
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
	os.Exit(1)
}
