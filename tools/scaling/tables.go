package main

import (
	"fmt"
	"strings"
)

const seed = 1

const heading = "p50 ms | p99 ms | p99.9 ms | leave the host | leave the zone | busiest host |\n"

// tables are those of the page, by name.
var tables = map[string]func() string{"lists": lists, "gateways": gateways, "engines": engines, "passed": passed, "breaks": breaks, "loads": loads, "full": full, "uneven": uneven, "cut": cut}

// loads compares policies at several loads that are the same on all hosts.
func loads() string {
	var text strings.Builder
	text.WriteString("| load | a call goes to | " + heading + "|---|---|---|---|---|---|---|---|\n")
	for _, load := range []float64{0.5, 0.7, 0.8, 0.9, 0.95} {
		for _, p := range policies {
			r := simulate(scenario{policy: p, load: load, length: 800 * millisecond, warm: 300 * millisecond}, seed)
			fmt.Fprintf(&text, "| %.0f %% | %s | %s |\n", 100*load, p, r.cells())
		}
	}
	return text.String()
}

func (r *result) cells() string {
	return fmt.Sprintf("%.2f | %.1f | %.1f | %.1f %% | %.1f %% | %.0f %%",
		r.quantile(0.5), r.quantile(0.99), r.quantile(0.999), r.share(r.leftHost), r.share(r.left), 100*r.worst)
}

// full compares for how long a host without room is left alone.
func full() string {
	var text strings.Builder
	text.WriteString("| load | left alone for | " + heading + "|---|---|---|---|---|---|---|---|\n")
	for _, load := range []float64{0.7, 0.9} {
		for _, ms := range []int{1, 5, 10, 50} {
			r := simulate(scenario{policy: nearestFirst, load: load, fullMs: ms, length: 800 * millisecond, warm: 300 * millisecond}, seed)
			fmt.Fprintf(&text, "| %.0f %% | %d ms | %s |\n", 100*load, ms, r.cells())
		}
	}
	return text.String()
}

// uneven compares policies where hosts or calls are not alike.
func uneven() string {
	var text strings.Builder
	text.WriteString("| what | a call goes to | " + heading + "|---|---|---|---|---|---|---|---|\n")
	base := scenario{load: 0.6, length: 800 * millisecond, warm: 300 * millisecond}
	for _, what := range []struct {
		name   string
		change func(*scenario)
	}{
		{"one host has four times as many calls", func(s *scenario) { s.busy = 4 }},
		{"calls take ten times as long on one host", func(s *scenario) { s.slow = 10 }},
		{"some calls take up to 200 ms", func(s *scenario) { s.heavy = true }},
	} {
		for _, p := range policies {
			s := base
			s.policy = p
			what.change(&s)
			fmt.Fprintf(&text, "| %s | %s | %s |\n", what.name, p, simulate(s, seed).cells())
		}
	}
	return text.String()
}

// cut compares policies when a host is cut off.
func cut() string {
	var text strings.Builder
	text.WriteString("| a call goes to | calls that were lost | the last of them began after | p99 ms of the others |\n|---|---|---|---|\n")
	for _, p := range []policy{anyHost, twoOfAll, nearestFirst} {
		r := simulate(scenario{policy: p, load: 0.6, length: 3 * second, warm: second, cut: second}, seed)
		fmt.Fprintf(&text, "| %s | %d of %d | %d ms | %.1f |\n", p, r.lost, r.lost+len(r.times), r.movedAfter/millisecond, r.quantile(0.99))
	}
	return text.String()
}
