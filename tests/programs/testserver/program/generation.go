package program

import (
	"fmt"
	"sync"
	"time"

	"github.com/nearcall/nearcall/server"
)

// The generations of a server whose functions change: the second has parameters in
// another order and of other types, the third has all of the first, and one more.
const (
	generationFirst = iota + 1
	generationChanged
	generationGrown
)

// A history is what has run, in words, so that a test sees what ran otherwise than its
// caller meant.
type history struct {
	mutex sync.Mutex
	lines []string
}

func (h *history) add(format string, values ...any) string {
	line := fmt.Sprintf(format, values...)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.lines = append(h.lines, line)
	return line
}

func (h *history) list() []string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return append([]string{}, h.lines...)
}

// registerGeneration adds the functions as that generation declares them; 0: none.
func registerGeneration(s *server.Server, generation int) {
	h := new(history)
	switch generation {
	case generationFirst, generationGrown:
		registerFirst(s, h)
	case generationChanged:
		registerChanged(s, h)
	default:
		return
	}
	if generation == generationGrown {
		s.Register("gained", func() string { return h.add("gained") })
	}
	s.Register("history", h.list, server.Doc("What has run in this process."))
}

// A nap is as long as the first generation says by a type, the second by a number.
type (
	nap struct {
		Length time.Duration
	}
	napInMilliseconds struct {
		Length int64
	}
)

func registerFirst(s *server.Server, h *history) {
	s.Register("transfer", func(src, dst string) string { return h.add("%s to %s", src, dst) }, server.Params("src", "dst"))
	s.Register("sleep_for", func(length time.Duration) string { return h.add("%d ms", length.Milliseconds()) }, server.Params("length"))
	s.Register("nap", func(n nap) string { return h.add("%d ms", n.Length.Milliseconds()) }, server.Params("nap"))
	s.Register("naps", func(all []nap) string { return h.add("%v", all) }, server.Params("naps"))
	s.Register("age", func() time.Duration { h.add("age"); return 7 * time.Millisecond })
	s.Register("spans", func() (time.Duration, time.Duration) { h.add("spans"); return 7, 8 })
	s.Register("level", func() int64 { h.add("level"); return 7 })
	s.Register("tag", func(data []byte) []byte { return []byte(h.add("bytes %s", data)) }, server.Params("data"))
	s.Register("lost", func() string { return h.add("lost") })
	s.Register("total", func(numbers []int64) string { return h.add("%v", numbers) }, server.Params("numbers"))
	s.Register("totals", func(lists [][]int64) string { return h.add("%v", lists) }, server.Params("lists"))
	s.Register("bag", func(names []string, ages map[string]int64) string { return h.add("%v %v", names, ages) }, server.Params("names", "ages"))
	s.Register("job", func(name string) string { return h.add("%s", name) }, server.Params("name"))
}

func registerChanged(s *server.Server, h *history) {
	s.Register("transfer", func(dst, src string) string { return h.add("%s to %s", src, dst) }, server.Params("dst", "src"))
	s.Register("sleep_for", func(length int64) string { return h.add("%d ms", length) }, server.Params("length"))
	s.Register("nap", func(n napInMilliseconds) string { return h.add("%d ms", n.Length) }, server.Params("nap"))
	s.Register("naps", func(all []napInMilliseconds) string { return h.add("%v", all) }, server.Params("naps"))
	s.Register("age", func() int64 { h.add("age"); return 7 })
	s.Register("spans", func() (int64, int64) { h.add("spans"); return 7, 8 })
	s.Register("level", func() string { h.add("level"); return "seven" })
	s.Register("tag", func(data string) string { return h.add("text %s", data) }, server.Params("data"))
	s.Register("total", func(numbers []int64, _ *string) string { return h.add("%v", numbers) }, server.Params("numbers", "note"))
	s.Register("totals", func(lists [][]int64, _ *string) string { return h.add("%v", lists) }, server.Params("lists", "note"))
	s.Register("bag", func(names map[string]int64, ages []string) string { return h.add("%v %v", names, ages) }, server.Params("names", "ages"))
	s.Register("job", func(name string, timeout *int64) string {
		if timeout == nil {
			return h.add("%s", name)
		}
		return h.add("%s for %d", name, *timeout)
	}, server.Params("name", "timeout"))
}
