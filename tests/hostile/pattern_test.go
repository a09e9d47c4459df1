package hostile_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
)

// What every caller sends are repetitions of one word of its own, that begins
// with the same bytes for all: wherever one of these words turns up, it names
// whose it is.
const wordBytes = 8

// No MessagePack array begins with the first, so a function that takes arguments
// refuses a damaged request instead of doing what nobody meant.
var wordStart = []byte{0xC5, 0x9E, 0xA7, 0xD3}

// names are the words of all callers there have ever been.
type names struct {
	mu     sync.Mutex
	random *rand.Rand
	taken  map[uint32]string
}

func newNames(seed uint64) *names {
	return &names{random: rand.New(rand.NewPCG(seed, 0)), taken: make(map[uint32]string)}
}

// A pattern is the word of one caller.
type pattern struct {
	names *names
	id    uint32
	word  uint64
}

func (n *names) add(who string) pattern {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		id := n.random.Uint32()
		if _, exists := n.taken[id]; !exists {
			n.taken[id] = who
			return pattern{n, id, binary.LittleEndian.Uint64(binary.LittleEndian.AppendUint32(bytes.Clone(wordStart), id))}
		}
	}
}

// fill makes a body of that many bytes.
func (p pattern) fill(bytesCount int) []byte {
	word := binary.LittleEndian.AppendUint64(nil, p.word)
	return bytes.Repeat(word, bytesCount/wordBytes+1)[:bytesCount]
}

// foreign returns whose word is in the data, if it is another's.
func (p pattern) foreign(data []byte) (who string, found bool) {
	for {
		at := bytes.Index(data, wordStart)
		if at < 0 {
			return "", false
		}
		data = data[at:]
		for len(data) >= wordBytes && binary.LittleEndian.Uint64(data) == p.word {
			data = data[wordBytes:]
		}
		if len(data) < wordBytes {
			return "", false
		}
		if !bytes.HasPrefix(data, wordStart) {
			continue
		}
		if who, found = p.names.who(binary.LittleEndian.Uint32(data[len(wordStart):])); found {
			return who, true
		}
		data = data[len(wordStart):]
	}
}

func (n *names) who(id uint32) (who string, found bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	who, found = n.taken[id]
	return who, found
}

// What others' bytes look like is found wherever it begins; what is one's own, or
// nobody's, is not.
func TestForeign(t *testing.T) {
	all := newNames(1)
	own, other := all.add("own"), all.add("other")
	for shift := range 2 * wordBytes {
		data := append(own.fill(1000+shift), other.fill(wordBytes)...)
		if who, found := own.foreign(data); !found || who != "other" {
			t.Errorf("shift %d: %q, %v", shift, who, found)
		}
		data[len(data)-1] ^= 0xFF
		if who, found := own.foreign(data); found {
			t.Errorf("shift %d: %q is found, which nobody is", shift, who)
		}
	}
}
