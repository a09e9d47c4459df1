package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// A fact is a name and what it is.
type fact struct{ Name, Text string }

func machineFacts(r *result.Result) []fact {
	m, v := r.Machine, r.Versions
	before, after := r.LoadBefore, r.LoadAfter
	return []fact{
		{"Processor", fmt.Sprintf("%s, %s; %s", m.CPU, m.Architecture, smtText(m.SMT))},
		{"CPUs", fmt.Sprintf("%d that may be used: %s; cores by the CPUs that share each: %s", m.CPUs, cmp.Or(m.AllowedCPUs, notTold), cmp.Or(strings.ReplaceAll(m.ThreadSiblings, " ", " | "), notTold))},
		{"Load", fmt.Sprintf("over 1, 5 and 15 minutes %v before and %v after, this run among it; %.1f s of all CPUs meanwhile were stolen by the hypervisor",
			before.Average, after.Average, after.StealS-before.StealS)},
		{"Kernel", fmt.Sprintf("%s; idle driver %s; virtualisation %s", m.Kernel, m.IdleDriver, m.Virtualisation)},
		{"Versions", fmt.Sprintf("Nearcall %s, %s, gcc %s, Perl %s, Python %s", v.Nearcall, v.Go, v.C, v.Perl, v.Python)},
	}
}

// notTold stands for what a result does not have.
const notTold = "not told"

// smtText says in words what the kernel says of simultaneous multithreading.
func smtText(active string) string {
	switch active {
	case "0":
		return "no CPU shares its core (SMT is off, or the machine does not show it)"
	case "1":
		return "two CPUs share a core (SMT)"
	}
	return "SMT " + active
}

func methodFacts(r *result.Result) []fact {
	m := r.Method
	return []fact{
		{"Rounds", fmt.Sprintf("%s of %s, as its group needs; %s", ranged(r, func(row result.Row) int { return row.Rounds }, m.Rounds, ""),
			ranged(r, func(row result.Row) int { return row.RoundMS }, m.RoundMS, " ms"), m.Order)},
		{"Warm-up", "each row runs before anything counts, for " + ranged(r, func(row result.Row) int { return row.WarmUpMS }, m.WarmUpMS, " ms") +
			", as its group needs; those that start a process or a connection for each call have next to none"},
		{"Percentiles", "from the time of every single call, taken by the caller; they are of every call of all rounds; calls per second are the median over the rounds"},
		{"Over time", "rows named sustained, played and neighbour are one caller that calls without a pause, each call timed from the end of the one before, and counted by windows: no time is left out; of each 16 calls the first is in their percentiles"},
		{"Pacing", "a caller waits for an answer before it calls again, so a stall is one slow call; rows named paced make all calls that are due at fixed times, and time one that was held up from when it was due; that a timer wakes its caller late, by a pace or 1 ms at most, is left out"},
		{"Affinity", m.Pinning},
		{"Waiting", fmt.Sprintf("spinning is %s; GOMAXPROCS %d, but where a row sets it", m.SpinSettings, m.GoMaxProcs)},
		{"Ratios", "are taken in each round, and their median is reported; rows that are compared take turns in one run"},
		{"CPU", "of caller and server from their process clocks around each round: what was fast because it burned a processor shows"},
		{"Failures", "what failed or is missing says so, and nothing stands in for it"},
	}
}

// ranged writes from the least to the most that rows have of something; the usual where
// rows do not tell.
func ranged(r *result.Result, of func(result.Row) int, usual int, unit string) string {
	least, most := 0, 0
	for _, row := range r.Rows {
		if n := of(row); n > 0 {
			least, most = min(cmp.Or(least, n), n), max(most, n)
		}
	}
	switch {
	case most == 0:
		return fmt.Sprint(usual) + unit
	case least == most:
		return fmt.Sprint(most) + unit
	}
	return fmt.Sprintf("%d to %s%s", least, thousands(float64(most)), unit)
}

// peerDifferences are what peers differ in beside how they call.
var peerDifferences = []string{
	"Language: a peer's caller and server are in the language that stands under its name. What is around a call costs least in C and most in Python.",
	"Connections: with several callers some share one client and its connection, some have a connection each, some are processes; it stands under their names. Who shares one can send several calls at once, and has to wait for the others where one is written.",
	"Serialisation: Nearcall's raw rows, ZeroMQ, nng and the bare socket carry bytes as they are. All others put them in a message of their own, encode and decode it.",
	"Memory: Nearcall's raw rows in Go and C, the bare socket and ZeroMQ read every answer into the same buffer; most others give each answer memory of its own.",
	"Deadlines: every call of Nearcall has the limit that its client was made with; most others have none here, as their introductions have none.",
	"A broker stands between both sides of NATS and D-Bus, which every request and every reply has to pass. That of D-Bus is a process of its own; that of NATS is in the server's process, which saves a socket.",
	"Who answers: the servers of ZeroMQ, nng, NATS and MessagePack-RPC answer one call at a time, all others as many as there are.",
	"Callers in Python: those of gRPC and MessagePack-RPC are threads, which share one interpreter; Nearcall's are processes, which do not.",
	"go-plugin's host starts its plugin only where the server is cold. In all other rows the plugin runs in the mode that the library has for tests, without AutoMTLS and handshake.",
	"Transport: NATS and MessagePack-RPC have no documented Unix sockets and go by TCP on the loopback.",
	"A cold start begins with all files in the page cache; that of a peer in Python is mostly the interpreter and its modules.",
}

// sentence ends a text as one.
func sentence(text string) string { return strings.TrimRight(text, ". ") + "." }
