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
// whose it is. It is long, so that damage does not make one's own another's.
const wordBytes = 16

type word [wordBytes]byte

// No MessagePack array begins with the first, so a function that takes arguments
// refuses a damaged request instead of doing what nobody meant.
var wordStart = []byte{0xC5, 0x9E, 0xA7, 0xD3}

// names are the words of all callers there have ever been.
type names struct {
	mu     sync.Mutex
	random *rand.Rand
	taken  map[word]string
}

func newNames(seed uint64) *names {
	return &names{random: rand.New(rand.NewPCG(seed, 0)), taken: make(map[word]string)}
}

// A pattern is the word of one caller.
type pattern struct {
	names *names
	own   word
}

func (n *names) add(who string) pattern {
	n.mu.Lock()
	defer n.mu.Unlock()
	made := bytes.Clone(wordStart)
	made = binary.LittleEndian.AppendUint32(made, n.random.Uint32())
	made = binary.LittleEndian.AppendUint64(made, n.random.Uint64())
	n.taken[word(made)] = who
	return pattern{n, word(made)}
}

// fill makes a body of that many bytes.
func (p pattern) fill(bytesCount int) []byte {
	return bytes.Repeat(p.own[:], bytesCount/wordBytes+1)[:bytesCount]
}

// foreign returns whose word is in the data, if it is another's.
func (p pattern) foreign(data []byte) (who string, found bool) {
	for {
		at := bytes.Index(data, wordStart)
		if at < 0 {
			return "", false
		}
		data = data[at:]
		for len(data) >= wordBytes && word(data[:wordBytes]) == p.own {
			data = data[wordBytes:]
		}
		if len(data) < wordBytes {
			return "", false
		}
		if !bytes.HasPrefix(data, wordStart) {
			continue
		}
		// One copy, for what is looked at may be just being written.
		if candidate := word(data[:wordBytes]); candidate != p.own {
			if who, found = p.names.who(candidate); found {
				return who, true
			}
		}
		data = data[len(wordStart):]
	}
}

func (n *names) who(w word) (who string, found bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	who, found = n.taken[w]
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
