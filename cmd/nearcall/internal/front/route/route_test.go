package route_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/route"
)

type rule = route.Rule[int]

func TestDecisions(t *testing.T) {
	table := route.New([]rule{
		{Name: "www.example.com", Target: 1},
		{Name: "www.example.com", Path: "/api/", Target: 2},
		{Name: "*.example.com", Target: 3},
		{Name: "*.a.example.com", Path: "/x", Target: 4},
		{Name: "*", Path: "/status", Target: 5},
		{Name: "[::1]", Target: 6},
		{TLS: true, Name: "www.example.com", Target: 7},
		{TLS: true, Name: "*", Target: 8},
	})
	for _, row := range []struct {
		host, path string
		want       int
	}{
		{"www.example.com", "/", 1}, {"WWW.Example.COM.:8080", "/", 1}, {"www.example.com", "/apis", 1},
		{"www.example.com", "/api", 2}, {"www.example.com", "/api/", 2}, {"www.example.com", "/api/x", 2}, {"www.example.com", "/api?q", 2},
		{"a.example.com", "/", 3}, {"b.a.example.com", "/", 3}, {"b.a.example.com", "/x/y", 4}, {"example.com", "/", 0},
		{"example.com", "/status", 5}, {"", "/status/1", 5}, {"", "/", 0}, {"[::1]:80", "/", 6}, {"[::1]", "/", 6},
		{".example.com", "/", 0}, {"www.example.com", "*", 1},
	} {
		if got, found := table.Request(row.host, row.path); got != row.want || found != (row.want != 0) {
			t.Errorf("Request(%q, %q) = %d, %v, want %d", row.host, row.path, got, found, row.want)
		}
	}
	for name, want := range map[string]int{"www.example.com": 7, "WWW.example.com.": 7, "other": 8, "": 8} {
		if got, found := table.TLS(name); got != want || !found {
			t.Errorf("TLS(%q) = %d, %v, want %d", name, got, found, want)
		}
	}
}

// The table decides as a plain reading of its rules does, for any rules and any
// connection.
func TestAgainstAPlainReading(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	found := 0
	for range 20_000 {
		rules := make([]rule, random.IntN(8))
		for i := range rules {
			rules[i] = rule{TLS: random.IntN(4) == 0, Name: pattern(random), Path: path(random), Target: i + 1}
		}
		table := route.New(rules)
		for range 8 {
			name, where, tls := host(random), path(random), random.IntN(4) == 0
			want := reading(rules, tls, name, where)
			got, _ := table.Request(name, where)
			if tls {
				got, _ = table.TLS(name)
			}
			if got != want {
				t.Fatalf("tls %v, name %q, path %q: rule %d, want %d\n%+v", tls, name, where, got, want, rules)
			}
			if got != 0 {
				found++
			}
		}
	}
	if found < 10_000 {
		t.Errorf("only %d connections found a rule: the test decides too little", found)
	}
}

// reading goes over all rules and keeps the most specific.
func reading(rules []rule, tls bool, name, path string) (target int) {
	best := [3]int{-1, -1, -1}
	for _, r := range rules {
		if r.TLS != tls {
			continue
		}
		specific := [3]int{nameFits(r.Name, name), pathFits(r.Path, path), 0}
		if tls {
			specific[1] = 0
		}
		if specific[0] < 0 || specific[1] < 0 {
			continue
		}
		if specific[0] > best[0] || specific[0] == best[0] && specific[1] > best[1] {
			best, target = specific, r.Target
		}
	}
	return target
}

// nameFits returns how specific the pattern is, and -1 where it does not fit.
func nameFits(pattern, name string) int {
	pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	switch {
	case pattern == "*":
		return 0
	case strings.HasPrefix(pattern, "*."):
		if before, fits := strings.CutSuffix(name, pattern[1:]); fits && before != "" {
			return len(pattern)
		}
		return -1
	case pattern == name:
		return 1_000_000
	}
	return -1
}

func pathFits(prefix, path string) int {
	prefix = strings.TrimRight(prefix, "/")
	rest, fits := strings.CutPrefix(path, prefix)
	if !fits || rest != "" && prefix != "" && rest[0] != '/' && rest[0] != '?' {
		return -1
	}
	return len(prefix)
}

func host(random *rand.Rand) string {
	labels := make([]string, 1+random.IntN(3))
	for i := range labels {
		labels[i] = string("abAB"[random.IntN(4)])
	}
	return strings.Join(labels, ".")
}

func pattern(random *rand.Rand) string {
	switch random.IntN(5) {
	case 0:
		return "*"
	case 1, 2:
		return "*." + host(random)
	}
	return host(random)
}

func path(random *rand.Rand) string {
	var text strings.Builder
	for range random.IntN(4) {
		text.WriteString([]string{"/", "/a", "/b", "/ab", "?"}[random.IntN(5)])
	}
	return text.String()
}

// What backends compare hosts by, the table does too.
func TestHostsAsBackendsCompareThem(t *testing.T) {
	text, err := os.ReadFile("../../../../../conformance/hosts.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != 3 {
			continue
		}
		rows++
		_, found := route.New([]rule{{Name: row[1], Target: 1}}).Request(row[0], "/")
		if found != (row[2] == "yes") {
			t.Errorf("host %q, pattern %q: %v", row[0], row[1], found)
		}
	}
	if rows < 15 {
		t.Errorf("%d rows", rows)
	}
}
