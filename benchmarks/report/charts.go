package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/chart"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// ProcessesSuffix ends the names of rows with that many processes that call at once.
func ProcessesSuffix(count int) string { return fmt.Sprintf("%d-processes", count) }

// A series is the rows that make up a line, by name: its rows are those whose whole
// name, without a number where it has one, is this pattern.
type series struct {
	says    string
	pattern *regexp.Regexp
}

func seriesOf(says, pattern string) series {
	return series{says, regexp.MustCompile("^" + pattern + "$")}
}

// axis is what a line is drawn against, or shows.
type axis struct {
	says  string
	of    func(result.Row) float64
	label func(float64) string
}

var (
	byCallers    = axis{"callers at once", func(r result.Row) float64 { return float64(r.Callers) }, chart.Count}
	bySize       = axis{"payload", func(r result.Row) float64 { return float64(r.Size) }, chart.Bytes}
	showsRate    = axis{"calls per second", func(r result.Row) float64 { return r.PerS }, chart.Rate}
	showsP50     = axis{"p50 of a call", func(r result.Row) float64 { return float64(r.P50NS) }, chart.Time}
	showsP99     = axis{"p99 of a call", func(r result.Row) float64 { return float64(r.P99NS) }, chart.Time}
	showsPerCall = axis{"time of the whole run for a call", func(r result.Row) float64 { return 1e9 / r.PerS }, chart.Time}
)

// A figure is a chart, and what is missing in it.
type figure struct {
	chart.Chart
	Missing []string
}

// MissingText names what is missing; "" where all is there.
func (f figure) MissingText() string {
	if len(f.Missing) == 0 {
		return ""
	}
	return "Not measured, and so not in the picture: " + strings.Join(f.Missing, ", ") + "."
}

// lines draws series, which need two points each, from rows that were measured; false
// where none has them. Rows that failed, and series that have no line, are named as
// missing.
func lines(rows []result.Row, says string, x, y axis, all []series) (figure, bool) {
	drawn := chart.Lines{Says: says, X: x.says, Y: y.says, XLabel: x.label, YLabel: y.label}
	var missing []string
	for _, s := range all {
		l, without := s.line(rows, x, y)
		if len(l.X) > 1 {
			drawn.Lines = append(drawn.Lines, l)
		} else if len(without) == 0 {
			without = []string{s.says}
		}
		missing = append(missing, without...)
	}
	return figure{drawn, missing}, len(drawn.Lines) > 0
}

// line is the series' line, and the rows that it lacks.
func (s series) line(rows []result.Row, x, y axis) (l chart.Line, missing []string) {
	l.Name = s.says
	var of []result.Row
	for _, row := range rows {
		if !s.pattern.MatchString(row.Name) {
			continue
		}
		if row.Failed == "" && x.of(row) > 0 && y.of(row) > 0 {
			of = append(of, row)
		} else {
			missing = append(missing, fmt.Sprintf("%s at %s", s.says, x.label(x.of(row))))
		}
	}
	slices.SortStableFunc(of, func(a, b result.Row) int { return cmp.Compare(x.of(a), x.of(b)) })
	for _, row := range of {
		if last := len(l.X) - 1; last >= 0 && l.X[last] == x.of(row) {
			continue // the first that was measured stands
		}
		l.X, l.Y = append(l.X, x.of(row)), append(l.Y, y.of(row))
	}
	return l, missing
}

// nonEmptyCharts are charts that have something to show.
type nonEmptyCharts []figure

func (c *nonEmptyCharts) add(drawn figure, ok bool) {
	if ok {
		*c = append(*c, drawn)
	}
}

var processSeries = []series{
	seriesOf("shared memory allowed", `nearcall-c-shm-\d+-processes`),
	seriesOf("socket only", `nearcall-c-socket-\d+-processes`),
}

const processesSay = "Calls per second by the number of processes that call at once (64 bytes, from C)"

func callersCharts(r *result.Result) []figure {
	var all nonEmptyCharts
	all.add(lines(r.Rows, processesSay, byCallers, showsRate, processSeries))
	all.add(lines(r.Rows, "The slowest of a hundred calls, by the number of processes that call at once", byCallers, showsP99, processSeries))
	for _, function := range PublishedFunctions {
		var of []series
		for _, server := range []string{"shm", "shm-eventloop", "socket", "eventloop"} {
			of = append(of, seriesOf(serverNames[server], "many-"+server+"-"+function+`-\d+`))
		}
		all.add(lines(r.Rows, "Many forked callers of "+function+": calls per second", byCallers, showsRate, of))
	}
	return all
}

var sizeSeries = []series{
	seriesOf("Nearcall, shared memory", "nearcall-c-shm"),
	seriesOf("Nearcall, socket", "nearcall-c-socket"),
	seriesOf("bare echo in Go, socket", "floor-go-socket"),
	seriesOf("bare echo in C, socket", "floor-c-socket"),
	seriesOf("memcpy", "memcpy"),
}

const sizesSay = "Cost of a call by the size of its payload, which travels both ways (from C)"

func sizeCharts(r *result.Result) []figure {
	var all nonEmptyCharts
	all.add(lines(r.Rows, sizesSay, bySize, showsP50, sizeSeries))
	all.add(lines(r.Rows, "The slowest of a hundred calls, by the size of their payload", bySize, showsP99, sizeSeries))
	return all
}

// bandOf is the distribution of a row; none where its samples were not counted.
func bandOf(row result.Row, says string) (chart.Band, bool) {
	if row.Histogram == nil || len(row.Histogram.Counts) == 0 {
		return chart.Band{}, false
	}
	return chart.Band{Name: says, Lower: row.Histogram.LowerNS, Counts: row.Histogram.Counts,
		Min: row.MinNS, P50: row.P50NS, P99: row.P99NS, P999: row.P999NS, Max: row.MaxNS}, true
}

// bandsMax is how many distributions stand in one chart.
const bandsMax = 18

// distributions draws rows that took turns.
func distributions(group string, rows []result.Row) []figure {
	var bands []chart.Band
	var missing []string
	for _, row := range rows {
		says := row.Name
		if row.CallsPerSample > 1 {
			says += fmt.Sprintf(", %s calls together", thousands(float64(row.CallsPerSample)))
		}
		if band, ok := bandOf(row, says); ok {
			bands = append(bands, band)
		} else {
			missing = append(missing, row.Name)
		}
	}
	var all []figure
	count := (len(bands) + bandsMax - 1) / bandsMax
	for i := range count {
		says := "How long calls take: " + group
		if count > 1 {
			says += fmt.Sprintf(", %d of %d", i+1, count)
		}
		all = append(all, figure{Chart: chart.Bands{Says: says, Bands: bands[i*len(bands)/count : (i+1)*len(bands)/count]}})
	}
	if count > 0 {
		all[count-1].Missing = missing
	}
	return all
}

// mainDistributions are the ways of calling, by what they are.
var mainDistributions = []struct{ row, says string }{
	{"nearcall-c-embed", "C, same process"},
	{"nearcall-perl-embed-typed", "Perl, same process"},
	{"nearcall-python-embed-typed", "Python, same process"},
	{"nearcall-c-shm", "C, shared memory"},
	{"nearcall-perl-shm-typed", "Perl, shared memory"},
	{"nearcall-python-shm-typed", "Python, shared memory"},
	{"nearcall-go-shm", "Go, shared memory"},
	{"nearcall-c-socket", "C, socket"},
	{"nearcall-perl-socket-typed", "Perl, socket"},
	{"nearcall-python-socket-typed", "Python, socket"},
	{"nearcall-go-socket", "Go, socket"},
	{"floor-go-socket", "bare echo in Go, socket"},
	{"simple-json", "C, simple JSON"},
}

const distributionSays = "How long one call takes, by the way it goes (64 bytes or less)"

func mainDistribution(r *result.Result) (figure, bool) {
	drawn := chart.Bands{Says: distributionSays}
	var missing []string
	f := ofSmall(r)
	for _, way := range mainDistributions {
		row, _ := f.find(way.row)
		if band, ok := bandOf(row, way.says); ok {
			drawn.Bands = append(drawn.Bands, band)
		} else {
			missing = append(missing, way.says)
		}
	}
	return figure{drawn, missing}, len(drawn.Bands) > 0
}

// pollerCharts are the poller's benchmarks, by GOMAXPROCS.
func pollerCharts(r *result.Result) []figure {
	byProcessors := axis{"GOMAXPROCS", func(row result.Row) float64 {
		n, err := strconv.Atoi(row.Name[strings.LastIndexByte(row.Name, '-')+1:])
		if err != nil {
			return 0
		}
		return float64(n)
	}, chart.Count}
	var all nonEmptyCharts
	for _, p := range publishedPoller {
		var of []series
		for _, way := range pollerWays {
			if way.onlyStays && strings.HasPrefix(p.row, "oneshot") {
				continue
			}
			of = append(of, seriesOf(way.name, p.row+"-"+way.row+`-\d+`))
		}
		all.add(lines(r.Rows, p.name, byProcessors, showsPerCall, of))
	}
	return all
}
