// Package peerlist is the one list of peers: other ways to call, which peers/build
// makes and the benchmarks measure beside Nearcall.
package peerlist

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"
)

//go:embed peers.txt
var text string

const fieldCount = 10

// A Peer is one way to call, as peers.txt describes it.
type Peer struct {
	Name string
	// Kind is what its callers are written in: go, c or python.
	Kind string
	// Server is the program that serves; the peer's own has its name.
	Server string
	// Callers are goroutines, threads or processes.
	Callers string
	Quick   bool
	// BytesAtOnceMax is how much callers may send at the same time; 0: any.
	BytesAtOnceMax int
	StartsIn       time.Duration
	// Hosts is whether callers can start a server of their own.
	Hosts bool
}

// Processes reports whether each caller is a process.
func (p Peer) Processes() bool { return p.Callers == "processes" }

// All returns every peer in the order of reports.
func All() []Peer {
	var all []Peer
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			all = append(all, parse(fields))
		}
	}
	return all
}

// parse panics where the list, which is part of the program, is wrong.
func parse(fields []string) Peer {
	if len(fields) != fieldCount {
		panic(fmt.Sprintf("peers.txt: %q has %d fields, not %d", fields, len(fields), fieldCount))
	}
	p := Peer{
		Name: fields[0], Kind: fields[1], Server: fields[4], Callers: fields[5], Quick: fields[6] == "yes",
		BytesAtOnceMax: number(fields[7]), StartsIn: time.Duration(number(fields[8])) * time.Millisecond, Hosts: fields[9] == "yes",
	}
	if p.Server == none {
		p.Server = p.Name
	}
	return p
}

const none = "-"

func number(field string) int {
	if field == none {
		return 0
	}
	value, err := strconv.Atoi(field)
	if err != nil {
		panic("peers.txt: " + err.Error())
	}
	return value
}
