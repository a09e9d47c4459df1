package msgpack

import "math/bits"

// A Meter counts the memory that decoded values take. It may be many times the bytes that
// they came in: one byte may be a struct of hundreds, or an element of a list of any. A nil
// Meter counts nothing. It is used by one goroutine at a time.
type Meter struct {
	Left   int // bytes that may be taken without asking
	Lender Lender
}

// A Lender lets a Meter have more.
type Lender interface {
	// Lend grants at least that many bytes, or says why there are none.
	Lend(bytes int) (granted int, err error)
}

// Bytes of what package reflect and the runtime make, in round numbers.
const (
	headBytes = 16 // of a text or an any, which points to the rest
	anyBytes  = 32 // an element of a list of any, with the number or the head of the text that it points to
	textBytes = 8  // of a short text, of which each has its own
)

// What package runtime makes of a map: a head, and groups of eight slots behind a word. A map of
// at most eight pairs has one group; of more, seven slots of eight are used at most, and their
// number is a power of two. Keys and elements of more than 128 bytes lie beside them.
const (
	mapHeadBytes   = 48
	mapGroupSlots  = 8
	mapInSlotBytes = 128
	pointerBytes   = 8
)

// Take counts so many elements of that size, before there are any.
func (m *Meter) Take(count int, elementBytes uintptr) error {
	if m == nil {
		return nil
	}
	m.Left -= count * int(elementBytes)
	if m.Left >= 0 {
		return nil
	}
	granted, err := m.Lender.Lend(-m.Left)
	m.Left += granted
	return err
}

// TakeMap counts a map of so many pairs, before there is any: a map of one pair takes as much as
// one of eight.
func (m *Meter) TakeMap(pairs int, keyBytes, elementBytes uintptr) error {
	if m == nil {
		return nil
	}
	return m.Take(1, mapBytes(pairs, keyBytes, elementBytes))
}

// TakeTextMap is TakeMap for a map from texts to texts, numbers or any, with what these point to.
func (m *Meter) TakeTextMap(pairs int) error {
	if err := m.Take(pairs, textBytes+anyBytes-headBytes); err != nil {
		return err
	}
	return m.TakeMap(pairs, headBytes, headBytes)
}

func mapBytes(pairs int, keyBytes, elementBytes uintptr) uintptr {
	slot, beside := uintptr(1), uintptr(0)
	for _, bytes := range []uintptr{keyBytes, elementBytes} {
		if bytes > mapInSlotBytes {
			beside += uintptr(pairs) * bytes
			bytes = pointerBytes
		}
		slot += bytes
	}
	slots := pairs
	switch {
	case pairs > mapGroupSlots:
		slots = 1 << bits.Len(uint(pairs*mapGroupSlots/(mapGroupSlots-1)))
	case pairs > 0:
		slots = mapGroupSlots
	}
	return mapHeadBytes + uintptr(slots)*slot + beside
}
