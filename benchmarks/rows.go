package main

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/peerlist"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/internal/windows"
)

// rowsText are all groups.
//
//go:embed rows.txt
var rowsText string

// rowValues are what the names in braces stand for.
func (t tools) rowValues() map[string][]string {
	processors, busy := busyCounts(t.processors())
	return map[string][]string{
		"function": report.PublishedFunctions, "errand": report.Errands, "bytes": numbers(report.LargeBytes...), "value": numbers(report.ValueBytes...), "few": {"1", "2"}, "several": {"16", "64"},
		"heavy": {"cobra", "perl", "python"}, "condition": {report.Sustained, report.Played},
		"idle": numbers(report.IdleCounts...), "many": numbers(report.ManyCallers...),
		"busy": numbers(busy...), "scheduler": numbers(processors), "processors": numbers(report.Processors...),
		"size": numbers(smallBytes, report.LargeBytes[0], report.LargeBytes[1], mebibyte), "callers": {"1", "16", "64"}, "any_peer": peers(func(peerlist.Peer) bool { return true }),
		"shape": {"five", "narrow", "struct", "list", "results", "error"},
		"once":  {"oneshot", "oneshot-timeout"}, "kept": {"persistent", "persistent-timeout"},
		// In comparisons.txt.
		"binding": {"perl", "python"}, "language": {"c", "perl", "python", "go"}, "further": {"second", "kept"}, "peer": peers(func(p peerlist.Peer) bool { return p.Quick }),
		"below_mib": numbers(report.LargeBytes[:2]...), "most": numbers(report.LargeBytes[3]), "processes": {"1", "2", "4", "16", "64"},
		"pause": {"100us", "1ms", "10ms"}, "part": {"one", "half"},
	}
}

// peers are the names of those that are wanted.
func peers(wanted func(peerlist.Peer) bool) (names []string) {
	for _, peer := range peerlist.All() {
		if wanted(peer) {
			names = append(names, peer.Name)
		}
	}
	return names
}

func numbers(all ...int) []string {
	var texts []string
	for _, n := range all {
		texts = append(texts, strconv.Itoa(n))
	}
	return texts
}

// groupWords are what a group's line may say beside what is of each of its rows.
var groupWords = map[string]func(g *group, value string){
	"quick":        func(g *group, _ string) { g.quick = true },
	"length":       func(g *group, value string) { g.length = duration(value) },
	"quick_length": func(g *group, value string) { g.quickLength = duration(value) },
	"rounds":       func(g *group, value string) { g.rounds = number(value) },
	"quick_rounds": func(g *group, value string) { g.quickRounds = number(value) },
	// Its own pace, as ROUNDSxLENGTH+WARM_UP; a quick run leaves it out unless it is asked for.
	"only_full": func(g *group, value string) {
		if value == "peers" { // as much as its rows send at once takes
			g.onlyFull = &peersPace
			return
		}
		rounds, times, _ := strings.Cut(value, "x")
		length, warmUp, _ := strings.Cut(times, "+")
		g.onlyFull = &pace{rounds: number(rounds), length: duration(length), warmUp: duration(warmUp)}
	},
	// A virtual CPU is moved between cores at any moment, and two of one core are
	// four times as near to each other as two of different cores. Rows that are
	// compared through memory have to follow each other closely.
	"slices": func(g *group, _ string) { g.slices = 3 },
	// Calls are counted by windows; rounds of a quick run are of the length that is given,
	// and may be too short for that.
	"windows": func(g *group, value string) {
		g.length, g.rounds, g.quickLength = 2500*time.Millisecond, 4, duration(value)
	},
	"on": func(g *group, value string) {
		confined, known := map[string]confinement{"one-cpu": onOneCPU{}, "half-cpu": &quotaGroup{}}[value]
		if !known {
			panic("rows.txt: nothing can be held to " + value)
		}
		g.confined = confined
	},
	"processors": func(g *group, value string) { g.confined = onGoProcessors(number(value)) },
	"beside": func(g *group, _ string) {
		beside, known := conditions[g.name]
		if !known {
			panic("rows.txt: nobody is beside " + g.name)
		}
		g.beside = beside
	},
}

// rowWords are what a row's line may say after how it is called, and what a group's may of
// each of its rows.
var rowWords = map[string]func(t tools, row *rowPlan, value string){
	"callers":    func(_ tools, row *rowPlan, value string) { row.callers = number(value) },
	"processes":  func(_ tools, row *rowPlan, value string) { row.processes = number(value) },
	"per_s":      func(_ tools, row *rowPlan, value string) { row.perSecond = number(value) },
	"starts":     func(_ tools, row *rowPlan, value string) { row.startsIn = duration(value) },
	"about":      func(_ tools, row *rowPlan, value string) { row.about = duration(value) },
	"processors": func(_ tools, row *rowPlan, value string) { row.goMaxProcs = number(value) },
	"apart":      func(_ tools, row *rowPlan, _ string) { row.pinning = "each side on a CPU of its own" },
	"uncounted":  func(_ tools, row *rowPlan, _ string) { row.serverNotCounted = true },
	"counted":    func(_ tools, row *rowPlan, _ string) { row.counted = true },
	"untold":     func(_ tools, row *rowPlan, _ string) { row.wants = protocol.Unknown },
	"fallback":   func(_ tools, row *rowPlan, _ string) { row.mayFallBack = true },
	"quick":      func(_ tools, row *rowPlan, _ string) { row.inQuick = true },
	"windowed":   func(_ tools, row *rowPlan, _ string) { row.window = windows.Length },
	"windows":    func(_ tools, row *rowPlan, _ string) { row.window = windows.Length },
	"run":        func(t tools, row *rowPlan, value string) { row.command = t.commandNamed(value) },
	"resident":   func(t tools, row *rowPlan, _ string) { row.command = t.byResident(row.command) },
	"peer":       tools.besidePeers,
	"light":      func(_ tools, row *rowPlan, _ string) { row.inQuick = row.size*row.callers == smallBytes },
	"cold":       func(_ tools, row *rowPlan, _ string) { row.cold = true },
	"idle": func(_ tools, row *rowPlan, value string) {
		row.server.idle = number(value)
		row.startsIn = time.Duration(row.server.idle) * idleConnectionStart
	},
}

// caller is a program that calls, as it is started for a mode; nil where there is none of that kind.
func (t tools) caller(kind, mode string) []string {
	return map[string][]string{
		"c": {t.built("caller"), mode}, "go": {t.built("gocaller"), mode}, "cgo": {t.built("cgocaller"), mode},
		"many": {t.built("many")}, "peer": {t.peerProgram(mode), "call"}, "floor": {t.peerProgram(mode), "call"},
		"perl":   {t.perl, "-Mblib=" + filepath.Join(t.root, "build/perl"), filepath.Join(t.root, "benchmarks/callers/caller.pl"), mode},
		"python": {t.python, filepath.Join(t.root, "benchmarks/callers/caller.py"), mode},
	}[kind]
}

var routes = map[string]route{
	"memory": byMemory, "socket": bySocket, "itself": byItself, "parent": byParent, "web": byWeb, "run": byRun, "simple": bySimple,
}

func (t tools) groups() []group { return t.groupsIn(rowsText) }

var comments = regexp.MustCompile(`(?m)^#.*\n`)

// groupsIn returns the groups of a text as rows.txt is. It panics where that is not understood.
func (t tools) groupsIn(text string) []group {
	var groups []group
	for _, block := range strings.Split("\n"+comments.ReplaceAllString(text, ""), "\ngroup ")[1:] {
		for _, one := range t.expanded(block, firstLine) {
			groups = append(groups, t.groupOf(one))
		}
	}
	return groups
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func whole(text string) string { return text }

var inBraces = regexp.MustCompile(`\{(\w+)\}`)

// expanded returns a text once for each of the values that names in a part of it stand for.
func (t tools) expanded(text string, part func(string) string) []string {
	found := inBraces.FindStringSubmatch(part(text))
	if found == nil {
		return []string{text}
	}
	values, known := t.rowValues()[found[1]]
	if !known {
		panic("rows.txt: nobody knows what stands for " + found[0])
	}
	var all []string
	for _, value := range values {
		all = append(all, t.expanded(strings.ReplaceAll(text, found[0], value), part)...)
	}
	return all
}

// groupOf reads a group whose first line has no names in braces any more.
func (t tools) groupOf(text string) group {
	head, body, _ := strings.Cut(text, "\n")
	words := strings.Fields(head)
	g := group{name: words[0]}
	var ofRows []string
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		set, ofGroup := groupWords[key]
		if ofGroup {
			set(&g, value)
		}
		if _, ofRow := rowWords[key]; ofRow && key != "quick" || !ofGroup {
			ofRows = append(ofRows, word)
		}
	}
	for _, line := range t.lines(body) {
		t.addLine(&g, line, ofRows)
	}
	if g.onlyFull == &peersPace {
		g.onlyFull = paceOfPeers(g.rows[0].size * g.rows[0].callers)
	}
	return g
}

// lines returns those of a text's paragraphs, each anew for what names in braces stand for,
// without comments.
func (t tools) lines(text string) (all []string) {
	for _, paragraph := range strings.Split(comments.ReplaceAllString(text, ""), "\n\n") {
		for _, one := range t.expanded(strings.TrimSpace(paragraph), whole) {
			for line := range strings.Lines(one) {
				all = append(all, strings.TrimSpace(line))
			}
		}
	}
	return all
}

// addLine adds a row, or what a group is measured without.
func (t tools) addLine(g *group, line string, ofRows []string) {
	if without, found := strings.CutPrefix(line, "without "); found {
		what, why, _ := strings.Cut(without, ": ")
		g.leftOut = append(g.leftOut, result.LeftOut{Group: g.name + ", " + what, Why: why})
		return
	}
	words := strings.Fields(line)
	if len(words) < 5 {
		panic(fmt.Sprintf("rows.txt: %q is no row: NAME BYTES SERVER ROUTE CALLER:MODE", line))
	}
	how := strings.Split(words[4], ":")
	server, knownServer := servers[words[2]]
	by, knownRoute := routes[words[3]]
	if len(how) < 2 || t.caller(how[0], how[1]) == nil || !knownServer || !knownRoute {
		panic(fmt.Sprintf("rows.txt: %q: there is no such server, route or caller", line))
	}
	row := plan(words[0], number(words[1]), server, by, t.caller(how[0], how[1]))
	if how[0] == "floor" {
		row.notMeasured = t.whyNotBuilt(peerNamed(how[1]))
	}
	for _, argument := range how[2:] {
		if strings.Contains(argument, "*") {
			argument = strconv.Itoa(number(argument))
		}
		row.arguments = append(row.arguments, argument)
	}
	for _, word := range slices.Concat(ofRows, words[5:]) {
		key, value, _ := strings.Cut(word, "=")
		set, known := rowWords[key]
		if !known {
			panic(fmt.Sprintf("rows.txt: %q: a row may not be %q", line, word))
		}
		set(t, &row, value)
	}
	var hosts bool
	if how[0] == "peer" {
		peer := peerNamed(how[1])
		hosts = peer.Hosts
		if why := t.asPeer(&row, peer); why != "" {
			g.leftOut = append(g.leftOut, result.LeftOut{Group: g.name + ", " + peer.Name, Why: why})
			return
		}
	}
	if row.cold {
		g.rows = append(g.rows, t.starting(row, hosts)...)
		return
	}
	g.rows = append(g.rows, row)
}

// number reads a number, or a product such as 2*16.
func number(text string) int {
	product := 1
	for factor := range strings.SplitSeq(text, "*") {
		n, err := strconv.Atoi(factor)
		if err != nil {
			panic("rows.txt: " + err.Error())
		}
		product *= n
	}
	return product
}

// duration reads a time, or a product such as 600us*100.
func duration(text string) time.Duration {
	one, times, several := strings.Cut(text, "*")
	length, err := time.ParseDuration(one)
	if err != nil {
		panic("rows.txt: " + err.Error())
	}
	if several {
		length *= time.Duration(number(times))
	}
	return length
}
