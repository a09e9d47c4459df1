// Command receiver takes connections and answers each with its process id.
//
//	receiver ADDRESS LEDGER [DESCRIPTORS]
//
// It notes in the ledger whose connection it took before it touches it. With a
// limit of descriptors it refuses what it has no room for.
package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/handoff"
)

// silence is how long a client may say nothing.
const silence = 300 * time.Millisecond

// Once in so many connections a receiver has something else to do, for about as long as a
// giver waits: then what it takes is asked back at the same moment.
const (
	busyEach   = 300
	busyFor    = 195 * time.Millisecond
	busySpread = 10 * time.Millisecond
)

func main() {
	fmt.Fprintln(os.Stderr, "receiver:", run(os.Args[1:]))
	os.Exit(1)
}

// run returns only when it cannot go on.
func run(arguments []string) error {
	if len(arguments) == 3 {
		descriptors, err := strconv.ParseUint(arguments[2], 10, 64)
		if err != nil {
			return err
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: descriptors, Max: descriptors}); err != nil {
			return err
		}
	}
	ledger, err := os.OpenFile(arguments[1], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	listener, err := handoff.Listen(arguments[0])
	if err != nil {
		return err
	}
	fmt.Println("ready", arguments[0])
	for {
		if rand.IntN(busyEach) == 0 {
			time.Sleep(busyFor + time.Duration(rand.Int64N(int64(busySpread))))
		}
		c, err := listener.Accept()
		if err != nil {
			return err
		}
		client := c.RemoteAddr().(*net.TCPAddr).IP
		if _, err := fmt.Fprintf(ledger, "taken %s %d\n", client, os.Getpid()); err != nil {
			return err
		}
		go answer(c)
	}
}

// answer serves a client that says a line in time.
func answer(c net.Conn) {
	defer func() { _ = c.Close() }()
	if c.SetDeadline(time.Now().Add(silence)) != nil {
		return
	}
	if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
		_, _ = fmt.Fprintln(c, os.Getpid())
	}
}
