package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	attackers          = 4
	lingeringMax       = 64       // connections each attacker leaves open
	corpusBytesMax     = 64 << 10 // longer messages only cost time
	hostileSettleBound = 15 * time.Second
	// floodedBound is for a client beside attackers that keep all CPUs busy.
	floodedBound = 500 * time.Millisecond
)

// attack sends mutated messages of the vectors over many connections for the
// time of -hostile, while a well-behaved client calls beside them. Afterwards
// the server must be as it was.
func (r *runner) attack() error {
	seed := r.seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	corpus, err := r.corpus()
	if err != nil {
		return err
	}
	st, err := r.startStage("hostile", false)
	if err != nil {
		return err
	}
	before, err := st.resident("VmRSS")
	if err != nil {
		return err
	}
	beside := startWatch(st.canary)
	connections, messages := r.unleash(st, corpus, seed)
	times, err := beside.finish(floodedBound)
	r.report.note("hostile: seed %d, %d messages of the vectors, %d sent mutated on %d connections", seed, len(corpus), messages, connections)
	r.report.note("hostile: well-behaved client beside: %s", times)
	if err != nil {
		return fmt.Errorf("seed %d: %w", seed, err)
	}
	return r.afterAttack(st, seed, before)
}

func (st *stage) resident(member string) (uint64, error) {
	if st.server.process == nil {
		return 0, nil
	}
	return residentBytes(st.server.process.Process.Pid, member)
}

func (r *runner) afterAttack(st *stage, seed, before uint64) error {
	if err := waitFor(hostileSettleBound, st.holdsNoMore); err != nil {
		return fmt.Errorf("seed %d: afterwards: %w%s", seed, err, st.server.dump())
	}
	peak, err := st.resident("VmHWM")
	if err != nil {
		return err
	}
	r.report.note("hostile: resident memory %d KiB before, %d KiB at its peak; descriptors and goroutines as before", before>>10, peak>>10)
	if peak > before+uint64(r.growthMiB)<<20 {
		return fmt.Errorf("seed %d: the server grew by %d MiB, %d are allowed", seed, (peak-before)>>20, r.growthMiB)
	}
	return st.stop()
}

// unmutated functions do what their arguments say: wait uncancelled, allocate,
// end the process. A mutated argument would make them look like a fault.
var unmutated = []string{"block", "fill", "exit"}

// corpus is every message that a vector sends to a server.
func (r *runner) corpus() ([][]byte, error) {
	var corpus [][]byte
	for _, v := range r.vectors {
		if v.Side != "server" {
			continue
		}
		for _, t := range v.cases() {
			s := newSession(r.spec, t)
			s.assumeAnswers()
			for _, step := range t.Steps {
				message, err := s.encode.bytes(step["send"])
				if err == nil && worthMutating(message) {
					corpus = append(corpus, message)
				}
			}
		}
	}
	if len(corpus) < 100 {
		return nil, fmt.Errorf("only %d messages in the vectors", len(corpus))
	}
	return corpus, nil
}

func worthMutating(message []byte) bool {
	for _, name := range unmutated {
		if strings.Contains(string(message), name) {
			return false
		}
	}
	return len(message) > 0 && len(message) <= corpusBytesMax
}

func (r *runner) unleash(st *stage, corpus [][]byte, seed uint64) (connections, messages uint64) {
	var together sync.WaitGroup
	var connected, sent atomic.Uint64
	end := time.Now().Add(r.hostile)
	for i := range uint64(attackers) {
		a := &attacker{
			runner: r, stage: st, corpus: corpus,
			random: rand.New(rand.NewPCG(seed, i)),
		}
		together.Go(func() {
			for time.Now().Before(end) {
				sent.Add(a.strike())
				connected.Add(1)
			}
			a.leave()
		})
	}
	together.Wait()
	return connected.Load(), sent.Load()
}

type attacker struct {
	runner    *runner
	stage     *stage
	corpus    [][]byte
	random    *rand.Rand
	lingering []net.Conn
}

// strike makes one connection and returns how many messages it sent.
func (a *attacker) strike() uint64 {
	conn, err := a.stage.server.dial()
	if err != nil {
		return 0 // the backlog is full for a moment; the canary judges
	}
	data, count := a.stream()
	_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond))
	for len(data) > 0 {
		piece := len(data)
		if a.random.IntN(3) == 0 {
			piece = 1 + a.random.IntN(piece)
		}
		if _, err := conn.Write(data[:piece]); err != nil {
			break
		}
		data = data[piece:]
	}
	a.part(conn)
	return count
}

// part ends a connection in one of the ways that connections end.
func (a *attacker) part(conn net.Conn) {
	switch a.random.IntN(4) {
	case 0:
		a.lingering = append(a.lingering, conn)
		if len(a.lingering) > lingeringMax {
			_ = a.lingering[0].Close()
			a.lingering = a.lingering[1:]
		}
		return
	case 1:
		if half, ok := conn.(*net.UnixConn); ok {
			_ = half.CloseWrite()
		}
		fallthrough
	case 2:
		var some [4096]byte
		_, _ = conn.Read(some[:])
	}
	_ = conn.Close()
}

func (a *attacker) leave() {
	for _, conn := range a.lingering {
		_ = conn.Close()
	}
}

// stream is, mostly, a good hello and then messages, most of them mutated.
func (a *attacker) stream() ([]byte, uint64) {
	var data []byte
	if a.random.IntN(8) > 0 {
		s := newSession(a.runner.spec, trial{vector: &vector{}})
		hello, err := s.encode.hello(object{"features_offered": uint64(a.random.IntN(2))}, nil)
		if err == nil {
			data = hello
		}
	}
	count := 1 + a.random.IntN(4)
	for range count {
		message := append([]byte(nil), a.corpus[a.random.IntN(len(a.corpus))]...)
		for range a.random.IntN(4) {
			message = a.mutate(message)
		}
		data = append(data, message...)
	}
	return data, uint64(count)
}

// edges are the numbers that lengths, counts and ids lie with.
var edges = []uint64{0, 1, 31, 32, 33, 64, 65, 255, 256, 4095, 4096, 4097, 65535, 65536, 4194303, 4194304, 4194305, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<63 - 1, 1 << 63, 1<<64 - 1}

func (a *attacker) mutate(message []byte) []byte {
	if len(message) == 0 {
		return []byte{byte(a.random.IntN(256))}
	}
	at := a.random.IntN(len(message))
	switch a.random.IntN(6) {
	case 0:
		message[at] ^= 1 << a.random.IntN(8)
	case 1:
		message[at] = byte(a.random.IntN(256))
	case 2:
		return message[:at]
	case 3:
		return append(message[:at:at], message[min(len(message), at+1+a.random.IntN(8)):]...)
	case 4:
		return append(append(message[:at:at], byte(a.random.IntN(256))), message[at:]...)
	case 5:
		f := frameLayout.fields[a.random.IntN(len(frameLayout.fields))]
		var wide [8]byte
		binary.LittleEndian.PutUint64(wide[:], edges[a.random.IntN(len(edges))])
		if f.offset+f.bytes <= len(message) {
			copy(message[f.offset:], wide[:f.bytes])
		}
	}
	return message
}
