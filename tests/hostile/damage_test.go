package hostile_test

import (
	"encoding/binary"
	"math/rand/v2"
	"os"

	"github.com/nearcall/nearcall/internal/wire"
	"golang.org/x/sys/unix"
)

// The layout of a caller region, spec/transports.md.
const (
	pageBytes    = 4096
	sleepsOffset = 0
	takenOffset  = 128
	slotsOffset  = 4096
	slotBytes    = 128
	slots        = 128
	arenaOffset  = slotsOffset + slots*slotBytes
	placeOffset  = 4
	headerOffset = 8
	lengthOffset = headerOffset
	typeOffset   = headerOffset + 4
	bodyOffset   = headerOffset + 32
)

// A theme is what an attacker does harm to through one connection. Harm that
// ends the connection at once would leave none for all other.
type theme int

const (
	everywhere theme = iota
	sleepWords
	takenWords
	sequences
	places
	lengths
	headers
	bodies
	holes
	themes
)

// damage does harm to a caller region.
type damage struct {
	region []byte
	server []byte // its region, which says what it expects next
	file   *os.File
	random *rand.Rand
	theme  theme
	done   int
}

// strike does one thing, mostly to the slots that the server looks at next.
func (d *damage) strike() {
	d.done++
	next := int(binary.LittleEndian.Uint32(d.server[takenOffset:]))
	slot := d.region[slotsOffset+(next+d.random.IntN(4))%slots*slotBytes:][:slotBytes]
	theme := d.theme
	if theme == everywhere {
		theme = 1 + themeOf(d.random)
	}
	switch theme {
	case sleepWords:
		d.word(d.region[sleepsOffset:])
	case takenWords:
		d.word(d.region[takenOffset:])
	case sequences:
		d.sequence(slot, next)
	case places:
		d.word(slot[placeOffset:])
	case lengths:
		d.word(slot[lengthOffset:])
	case headers:
		d.bytes(slot[headerOffset:bodyOffset])
	case bodies:
		d.bytes(d.region[arenaOffset:])
		d.bytes(slot[bodyOffset:])
	case holes:
		d.punch()
	}
}

func themeOf(random *rand.Rand) theme { return theme(random.IntN(int(themes) - 1)) }

// telling are numbers at which a check could be wrong by one.
var telling = []uint32{
	0, 1, 2, 63, 64, 87, 88, 89, 127, 128, 129, 4095, 4096, slotsOffset + slotBytes, arenaOffset - 64, arenaOffset,
	arenaOffset + 1, arenaOffset + 64, arenaOffset + wire.SharedMemoryArenaBytes - 64, arenaOffset + wire.SharedMemoryArenaBytes, 4 << 20, 4<<20 + 1, 1<<24 - 1,
	0x7FFFFFFF, 0x80000000, 0xFFFFFF80, 0xFFFFFFC0, 0xFFFFFFFF,
}

// word changes a number a little, or altogether.
func (d *damage) word(at []byte) {
	number := binary.LittleEndian.Uint32(at)
	switch d.random.IntN(4) {
	case 0:
		number += uint32(d.random.IntN(5)) - 2
	case 1:
		number ^= 1 << d.random.IntN(32)
	case 2:
		number = telling[d.random.IntN(len(telling))]
	default:
		number = d.random.Uint32()
	}
	binary.LittleEndian.PutUint32(at, number)
}

// bytes changes some of them.
func (d *damage) bytes(at []byte) {
	for range 1 + d.random.IntN(8) {
		at[d.random.IntN(len(at))] = byte(d.random.Uint32())
	}
}

// sequence publishes a slot whose frame nobody wrote, or damages the number.
func (d *damage) sequence(slot []byte, next int) {
	if d.random.IntN(2) == 0 {
		binary.LittleEndian.PutUint32(slot, uint32(next+1+d.random.IntN(4)))
		return
	}
	d.word(slot)
}

// punch takes pages away that the server made sure exist. The errors do not
// matter: what the kernel refuses does no harm.
func (d *damage) punch() {
	pages := len(d.region) / pageBytes
	first := d.random.IntN(pages)
	if d.random.IntN(2) == 0 {
		first %= arenaOffset / pageBytes
	}
	count := 1 + d.random.IntN(min(8, pages-first))
	from, bytes := first*pageBytes, count*pageBytes
	part := d.region[from : from+bytes]
	switch d.random.IntN(6) {
	case 0, 1:
		_ = unix.Fallocate(int(d.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(from), int64(bytes))
	case 2, 3:
		_ = unix.Madvise(part, unix.MADV_REMOVE)
	case 4:
		_ = unix.Madvise(part, unix.MADV_DONTNEED)
	case 5:
		_ = unix.Madvise(part, unix.MADV_PAGEOUT)
	}
}
