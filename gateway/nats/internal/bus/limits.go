package bus

import "time"

const (
	// streamsAtFullWindow is how many streams have whole windows. Each stream beyond them gets less,
	// down to windowBytesMin. No window is made smaller later, so that all streams of a hub hold at
	// most about four times as much as so many whole windows.
	streamsAtFullWindow = 256
	// windowBytesMin is the smallest window that a stream may be given.
	windowBytesMin = 64 << 10
	// A stream does not use its whole window at once: it begins with paceFirst, uses more while
	// messages come quickly, and less when one was held up for crowdedMs on a link that carries too
	// much, down to paceLeast. So no stream makes those of others too late.
	paceFirst = 64 << 10
	paceLeast = 16 << 10
	crowdedMs = 150
	// answerEveryMs is how often a stream says at most that it is there.
	answerEveryMs = 50
	// backlogMax is how many connections wait to be accepted.
	backlogMax = 128
	// strangersPerSecond is how many messages to streams that are not there are answered in a second,
	// and how many connections are refused.
	strangersPerSecond = 1000

	// tickEvery is how often streams are looked at.
	tickEvery = 100 * time.Millisecond
	// idleProbeMs is how often the side that has dialled asks whether its peer is there, if nothing
	// is heard from it. A side that hears nothing for silenceMs gives the stream up.
	idleProbeMs = 15_000
	silenceMs   = 45_000
	// delaysKeptMs is how long the shortest delay counts by which others are judged, because
	// clocks drift.
	delaysKeptMs = 60_000
)
