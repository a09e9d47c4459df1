// Command gocaller is the Go caller: it measures one way to call, when it is told
// to. Commands, report and what is timed are those of callers/caller.c, which
// also says how; allocations are not counted.
//
//	gocaller bare|shared ADDRESS PAYLOAD_BYTES CALLERS
//
// With "shared" the callers are goroutines that share one client, with "bare" each
// has a connection of its own to an echo server with a length prefix.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// What a report says where this caller cannot tell.
const (
	notCounted       = ^uint64(0)
	transportUnknown = 0
)

// A subject makes one call. Each caller has its own.
type subject func() error

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gocaller:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("usage: gocaller bare|shared ADDRESS PAYLOAD_BYTES CALLERS")
	}
	payloadBytes, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	callers, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	subjects, err := openSubjects(args[0], args[1], payloadBytes, callers)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		fields := strings.Fields(commands.Text())
		if len(fields) < 2 || fields[0] != "run" {
			return fmt.Errorf("expected \"run MILLISECONDS\", got %q", commands.Text())
		}
		milliseconds, err := strconv.Atoi(fields[1])
		if err != nil {
			return err
		}
		if err := runAndReport(subjects, time.Duration(milliseconds)*time.Millisecond); err != nil {
			return err
		}
	}
	return commands.Err()
}

func openSubjects(mode, address string, payloadBytes, callers int) ([]subject, error) {
	payload := make([]byte, payloadBytes)
	for i := range payload {
		payload[i] = byte(i*31 + 7)
	}
	switch mode {
	case "bare":
		return openBare(address, payload, callers)
	case "shared":
		return openShared(address, payload, callers)
	}
	return nil, fmt.Errorf("mode %q; there are bare and shared", mode)
}

func runAndReport(subjects []subject, length time.Duration) error {
	samples := make([][]uint64, len(subjects))
	failures := make([]error, len(subjects))
	cpu, err := ownCPU()
	if err != nil {
		return err
	}
	begin := time.Now()
	var callers sync.WaitGroup
	for i, call := range subjects {
		callers.Go(func() { samples[i], failures[i] = callUntil(call, begin.Add(length)) })
	}
	callers.Wait()
	elapsed := time.Since(begin)
	cpuAfter, err := ownCPU()
	if err != nil {
		return err
	}
	for _, failure := range failures {
		if failure != nil {
			return failure
		}
	}
	return writeReport(samples, elapsed, cpuAfter-cpu)
}

func callUntil(call subject, until time.Time) ([]uint64, error) {
	samples := make([]uint64, 0, 1<<14)
	for {
		begin := time.Now()
		if err := call(); err != nil {
			return nil, err
		}
		end := time.Now()
		samples = append(samples, uint64(end.Sub(begin)))
		if end.After(until) {
			return samples, nil
		}
	}
}

func writeReport(samples [][]uint64, elapsed, cpu time.Duration) error {
	var calls uint64
	for _, s := range samples {
		calls += uint64(len(s))
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	head := []uint64{calls, uint64(elapsed), uint64(cpu), notCounted, calls, transportUnknown}
	if err := binary.Write(out, binary.NativeEndian, head); err != nil {
		return err
	}
	for _, s := range samples {
		if err := binary.Write(out, binary.NativeEndian, s); err != nil {
			return err
		}
	}
	return out.Flush()
}

func ownCPU() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), err
}
