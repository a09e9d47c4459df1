package main

import (
	"fmt"
	"strings"

	"github.com/nearcall/nearcall/internal/wire"
)

// What the arithmetic begins with: the inputs of the page.
const (
	processesPerHost = 8 // that call, each with one client
	callsPerHost     = 1_000
	// Measured with `nearcall bench` and 64, then 1,000 callers over TLS, on two busy processors.
	serverUsPerCall, callerUsPerCall = 65, 36
	serverKiBPerConnection           = 44
)

// lists computes what addresses with several tls: endpoints cost, by the number of hosts.
func lists() string {
	var text strings.Builder
	text.WriteString("| hosts | calls/s of all | hosts that a caller can reach | connections to each host | memory for them there | keep-alive frames/s of a host | processors of a host for its calls |\n|---|---|---|---|---|---|---|\n")
	for _, hosts := range []int{3, 17, 100, 1_000} {
		reached := min(hosts-1, wire.AddressEndpointsMax)
		connections := processesPerHost * reached // as many come as go
		keepAlive := 2 * float64(connections) * 1000 / wire.TcpKeepAliveMs
		fmt.Fprintf(&text, "| %s | %s | %d | %d | %.1f MiB | %.0f | %.2f |\n", grouped(hosts), grouped(hosts*callsPerHost), reached, connections,
			float64(connections*serverKiBPerConnection)/1024, keepAlive, callsPerHost*(serverUsPerCall+callerUsPerCall)/1e6)
	}
	return text.String()
}

// grouped writes a number with commas.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
