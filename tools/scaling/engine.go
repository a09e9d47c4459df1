package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/internal/wire"
)

// What the arithmetic of gateways begins with. Each host exports one server, all of them the same
// functions, and hosts are spread evenly over zones.
const (
	zoneCount, functionsPerServer = 10, 50
	sharedEngines                 = 10 // of one cluster that all gateways share
	enginesPerZone                = 3  // if each zone has a cluster

	// Subjects that only one gateway subscribes to: those of its hub, of what the engine says to it,
	// and of three questions to the instance of its service.
	ownSubjects = 2 + 3
	// Subjects that all subscribe to: announcements, who, bye, cancellations, three questions to all
	// services and three to those of a name, and functions.
	sharedSubjects = 4 + 6 + functionsPerServer

	// Two engines of a cluster have so many connections: three for messages, which is the default of
	// nats-server, and one for its system account.
	routesPerPair = 3 + 1
	// A gateway looks every two seconds for those whose callers have connections to it (peerLook).
	looksPerSecond = 0.5
	// Each function is called at so many servers of one distance (placesPerDistance), and a
	// server has a connection for small arguments and one for large ones.
	placesPerDistance, streamsPerServer = 16, 2
	// So many connections have whole windows, and each further one less, down to the least
	// (streamsAtFullWindow, windowBytesMin).
	fullWindows, windowKiBMin = 256, 64
	// From this number of members on, gateways announce themselves less often (membersAtPace).
	membersAtPace = 200
	// A gateway that hears of others answers after up to a second, half of it on average, and a
	// tenth later at the earliest once more.
	answersPerSecond = 1 / (0.5 + 0.1)

	// Measured in processor time, on two processors with much else to do, by the benchmarks of
	// gateway/nats, as the difference between a short run and a long one:
	announcementUs, announcementBytes = 23, 315 // BenchmarkAnnouncement: to deliver one and to read it
	throughUs, throughLoneUs          = 24, 173 // BenchmarkGateway, 64 callers and one: all five programs
	questionUs                        = 15      // of NATS alone with 64 callers: both ends and the engine
	// BenchmarkInterest: both engines together, and the less of one end of a connection.
	subscriptionBytes, routeEndKiB = 990, 15
	// Two engines that asked each other every 10 ms over four connections: both ends.
	pingUs = 58
)

// announcedEvery returns the interval of announcements in seconds.
func announcedEvery(hosts int) float64 {
	return wire.AnnounceMs / 1000 * float64(max(1, (hosts-1)/membersAtPace))
}

// serversUsed returns at how many of so many other hosts a gateway calls functions on average, because
// it chooses those of each function on its own.
func serversUsed(others int) float64 {
	if others <= placesPerDistance {
		return float64(max(0, others))
	}
	n := float64(others)
	return n * (1 - math.Pow(1-placesPerDistance/n, functionsPerServer))
}

// streams returns how many connections of the bus a gateway has in both directions when it has called
// all that it may call: within its zone, or everywhere.
func streams(hosts int, everywhere bool) float64 {
	within := max(1, hosts/zoneCount) - 1
	used := serversUsed(within)
	if everywhere {
		used += serversUsed(hosts - 1 - within)
	}
	return 2 * streamsPerServer * used
}

// windowsMiB returns what so many connections of the bus may hold at most, which they do if nobody reads
// what comes by them.
func windowsMiB(connections int) float64 {
	sum := 0.0
	for i := 1; i <= connections; i++ {
		window := wire.BusWindowBytes / 1024.0
		if i > fullWindows {
			window = max(window*fullWindows/float64(i), windowKiBMin)
		}
		sum += window / 1024
	}
	return sum
}

// gateways computes what each gateway has to do, besides calls.
func gateways() string {
	var text strings.Builder
	text.WriteString("| hosts | a gateway announces itself every | announcements that each hears | for them | share of a processor | connections of the bus, within the zone | in all zones | these hold at most | questions whether others are there |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, hosts := range []int{3, 100, 1_000, 10_000} {
		heard := float64(hosts-1) / announcedEvery(hosts)
		// As many gateways call this one as it calls.
		looks := streams(hosts, true) / 2 / streamsPerServer * looksPerSecond
		fmt.Fprintf(&text, "| %s | %.0f s | %.1f/s | %.1f KiB/s | %.2f %% | %s | %s | %.0f MiB | %.0f/s |\n", grouped(hosts), announcedEvery(hosts), heard,
			heard*announcementBytes/1024, heard*announcementUs/1e4, whole(streams(hosts, false)), whole(streams(hosts, true)), windowsMiB(int(math.Round(min(streams(hosts, true), wire.BusStreamsMax)))), looks)
	}
	return text.String()
}

func whole(n float64) string { return grouped(int(math.Round(n))) }

// A shape is a way to connect gateways, as one of its engines sees it.
type shape struct {
	name                    string
	engines, clients, leafs int
	routes, gateways        int // connections to engines of its cluster, and to and from other clusters
	inAll                   int // connections, each counted once
	known                   int // subscriptions
	pings                   int // questions in a second, and answers to them, whether the other end is there
	delivered               float64
}

// shapes returns those that the page compares.
func shapes(hosts int) []shape {
	all := ownSubjects + sharedSubjects
	perEngine, perZone := hosts/sharedEngines, hosts/zoneCount
	routes := routesPerPair * (sharedEngines - 1)
	routed := (sharedEngines - 1) * (perEngine*ownSubjects + sharedSubjects)
	rate := float64(hosts) / announcedEvery(hosts)
	inZone := perZone / enginesPerZone
	return []shape{
		{name: "each gateway its own, one cluster", engines: hosts, clients: 1, routes: routesPerPair * (hosts - 1), inAll: routesPerPair * hosts * (hosts - 1) / 2,
			known: hosts * all, pings: 2 * routesPerPair * (hosts - 1), delivered: rate},
		{name: "each gateway its own, leaf nodes of a cluster: a leaf", engines: hosts, clients: 1, leafs: 1, inAll: hosts,
			known: all + (hosts-1)*ownSubjects + sharedSubjects, pings: 1, delivered: rate},
		{name: "the same: an engine of the cluster", engines: sharedEngines, leafs: perEngine, routes: routes, inAll: hosts + sharedEngines*routes/2,
			known: perEngine*all + routed, pings: perEngine, delivered: rate * float64(perEngine)},
		{name: "one cluster for all gateways", engines: sharedEngines, clients: perEngine, routes: routes, inAll: hosts + sharedEngines*routes/2,
			known: perEngine*all + routed, pings: perEngine, delivered: rate * float64(perEngine)},
		{name: "a cluster in each zone, connected by gateways of NATS", engines: zoneCount * enginesPerZone, clients: inZone, routes: routesPerPair * (enginesPerZone - 1), gateways: 2 * (zoneCount - 1),
			inAll: hosts + zoneCount*enginesPerZone*(routesPerPair*(enginesPerZone-1)/2+zoneCount-1),
			known: inZone*all + (enginesPerZone-1)*(inZone*ownSubjects+sharedSubjects) + (zoneCount-1)*(perZone*ownSubjects+sharedSubjects), pings: inZone, delivered: rate * float64(inZone)},
	}
}

func (s *shape) connections() int { return s.clients + s.leafs + s.routes + s.gateways }

func (s *shape) mib() float64 {
	return (float64(s.known)*subscriptionBytes/1024 + float64(s.connections())*routeEndKiB) / 1024
}

// pingProcessors is what one end's half of a question and its answer takes. Engines of gateways ask
// each other every second, both ends of each connection. Programs and leaf nodes ask, and engines
// answer. Engines that are no gateway's ask each other seldom.
func (s *shape) pingProcessors() float64 { return float64(s.pings) * pingUs / 2 / 1e6 }

// engines computes what an engine has to hold for a thousand hosts.
func engines() string {
	var text strings.Builder
	text.WriteString("| engines for 1,000 hosts | engines | connections of one (programs, leaf nodes, routes, gateways of NATS) | connections in all | subscriptions that one knows | memory for both | asking who is there takes of a processor | announcements that one delivers |\n|---|---|---|---|---|---|---|---|\n")
	for _, s := range shapes(1_000) {
		fmt.Fprintf(&text, "| %s | %s | %s (%d, %d, %s, %d) | %s | %s | %.1f MiB | %.1f %% | %s/s |\n", s.name, grouped(s.engines), grouped(s.connections()), s.clients, s.leafs, grouped(s.routes), s.gateways,
			grouped(s.inAll), grouped(s.known), s.mib(), 100*s.pingProcessors(), whole(s.delivered))
	}
	return text.String()
}

// passed computes what calls through the engine take, of a million in a second on a thousand hosts.
func passed() string {
	var text strings.Builder
	text.WriteString("| calls that leave their host | calls/s through the engine | of each host | share of a processor of each host, if 64 are under way at a time | if one is | an engine of ten passes on at most | which takes at most |\n|---|---|---|---|---|---|---|\n")
	const hosts = 1_000
	for _, share := range []float64{0.01, 0.1, 0.5, 1} {
		each := share * callsPerHost
		// A question and its answer may pass two engines.
		messages := 2 * 2 * each * hosts / sharedEngines
		fmt.Fprintf(&text, "| %.0f %% | %s | %s/s | %.2f %% | %.1f %% | %s messages/s | %.2f processors |\n", 100*share, whole(each*hosts), whole(each), each*throughUs/1e4, each*throughLoneUs/1e4,
			whole(messages), messages/2*questionUs/1e6)
	}
	return text.String()
}

// A bound is what holds only up to a number of hosts.
type bound struct {
	name  string
	hosts int
}

// bounds returns what breaks, first things first.
func bounds() []bound {
	mesh := func(hosts int) shape { return shapes(hosts)[0] }
	found := []bound{
		{"Gateways with engines of their own in one cluster: asking all others whether they are there takes a tenth of a processor of each host", first(func(n int) bool { s := mesh(n); return s.pingProcessors() > 0.1 })},
		{"Gateways with engines of their own in one cluster: connections and subscriptions of all others take 256 MiB on each host", first(func(n int) bool { s := mesh(n); return s.mib() > 256 })},
		{fmt.Sprintf("Ten engines for all: when all gateways start at once, each gets %.1f announcements of every other in a second, which take four processors of each engine", answersPerSecond),
			first(func(n int) bool {
				return answersPerSecond*float64(n)*float64(n)/sharedEngines*questionUs/2/1e6 > 4
			})},
		{"Every gateway calls functions at every other: limit `bus_streams_max` is reached", first(func(n int) bool { return 2*streamsPerServer*(n-1) > wire.BusStreamsMax })},
		{fmt.Sprintf("Every gateway calls each of %d functions wherever it may: limit `bus_streams_max` is reached on average", functionsPerServer), first(func(n int) bool { return streams(n, true) > wire.BusStreamsMax })},
		{"Each gateway knows all others: limit `members_max` is reached", first(func(n int) bool { return n-1 > wire.MembersMax })},
	}
	slices.SortStableFunc(found, func(a, b bound) int { return cmp.Compare(a.hosts, b.hosts) })
	return found
}

const hostsMost = 100_000

// first returns the smallest number of hosts at which something breaks, or hostsMost if nothing does
// with fewer.
func first(breaks func(hosts int) bool) int {
	for hosts := zoneCount; hosts < hostsMost; hosts++ {
		if breaks(hosts) {
			return hosts
		}
	}
	return hostsMost
}

// breaks says what breaks first, and what then.
func breaks() string {
	var text strings.Builder
	found := bounds()
	fmt.Fprintf(&text, "**The first row breaks first, at %s hosts.** With other engines than those of this row, it is what the next one says, at %s.\n\n", grouped(found[0].hosts), grouped(found[1].hosts))
	text.WriteString("| hosts | what breaks |\n|---|---|\n")
	for _, b := range found {
		number := grouped(b.hosts)
		if b.hosts == hostsMost {
			number = "not up to " + number
		}
		fmt.Fprintf(&text, "| %s | %s |\n", number, b.name)
	}
	return text.String()
}
