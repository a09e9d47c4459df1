// Command inheritor says what it inherited, for the tests of handoff, which start
// it by the real service managers. It answers connections with the name of the
// listener they came by, until it is terminated if it has listeners.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"

	"github.com/nearcall/nearcall/handoff"
)

// A report is what it prints, in one line of JSON.
type report struct {
	Items       []item
	Error       string
	Again       int      // items of a second call
	Environment []string // variables of service managers that are left
	Child       string   // sockets that a program started by this one has
}

type item struct{ Name, Kind, Address string }

func main() {
	items, err := handoff.Inherited()
	told := report{}
	if err != nil {
		told.Error = err.Error()
	}
	for _, i := range items {
		told.Items = append(told.Items, describe(i))
	}
	again, err := handoff.Inherited()
	if err != nil {
		told.Error += " again: " + err.Error()
	}
	told.Again = len(again)
	for _, name := range []string{"LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES", "SERVER_STARTER_PORT"} {
		if value, found := os.LookupEnv(name); found {
			told.Environment = append(told.Environment, name+"="+value)
		}
	}
	child, err := exec.Command("sh", "-c", "ls -l /proc/self/fd | grep socket: || true").Output()
	told.Child = string(child)
	if err != nil {
		told.Error += " child: " + err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		os.Exit(1)
	}
	var listeners sync.WaitGroup
	for _, i := range items {
		listeners.Go(func() { answer(i) })
	}
	listeners.Wait()
}

func describe(i handoff.Item) item {
	if i.Listener != nil {
		return item{i.Name, "listener", i.Listener.Addr().String()}
	}
	if conn, err := net.FileConn(i.File); err == nil {
		defer conn.Close()
		return item{i.Name, fmt.Sprintf("%T", conn), conn.LocalAddr().String()}
	}
	return item{Name: i.Name, Kind: "file"}
}

func answer(i handoff.Item) {
	if i.Listener == nil {
		_, _ = io.WriteString(i.File, "by "+i.Name+"\n")
		_ = i.Close()
		return
	}
	for {
		conn, err := i.Listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "by "+i.Name+"\n")
		_ = conn.Close()
	}
}
